//! Runs whose folder of slots is locked or occupied by another user.

use crate::kit::{Sandbox, skipped, wait_for};
use crate::processes::signal;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

const ONE: &str = "version: 1\nname: one\nstages:\n  one: {run: 'true', cache: false}\n";

#[test]
fn sigterm_ends_a_run_that_waits_for_a_locked_folder() {
    let s = Sandbox::new();
    s.write("one.yaml", ONE);
    let lock = File::open(s.write("home/slots/lock", "")).unwrap();
    lock.lock().unwrap();
    let mut run = s.spawn(&["run", "one.yaml"]);
    std::thread::sleep(Duration::from_secs(3));
    assert!(run.try_wait().unwrap().is_none(), "it waits");
    signal("-TERM", &run.id().to_string());
    wait_for("its end", 40, || run.try_wait().unwrap().is_some());
}

#[test]
fn lock_that_is_a_pipe_is_named() {
    let s = Sandbox::new();
    s.write("one.yaml", ONE);
    let lock = s.path("home/slots/lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let ran = s.run(&["run", "one.yaml"]);
    assert_ne!(ran.code, 0, "{}", ran.stderr);
    let shown = ran.output();
    assert!(shown.contains("not a regular file"), "{shown}");
}

/// The other user is any id: only root may start its commands.
#[test]
fn links_of_another_user_are_not_followed() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skipped("only root may start commands of another user");
    }
    let s = Sandbox::new();
    let shared = s.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(s.path(""), Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
    s.write("trainyard.yaml", format!("version: 1\nslots: {}\n", shared.display()));
    s.write("one.yaml", ONE);
    let waits = "'while [ ! -e \"$GO\" ]; do sleep 0.1; done', env: {GO: \"@go\"}";
    s.write_placed("slow.yaml", &ONE.replace("'true'", waits));
    let mut slow = s.spawn(&["run", "slow.yaml"]);
    let holding = || s.files("shared").into_iter().find_map(|name| name.strip_suffix(".0").map(String::from));
    wait_for("a holding", 60, || holding().is_some());
    let host = holding().unwrap();
    s.write("go", "");
    assert!(slow.wait().unwrap().success());
    let target = s.path("written-through-a-link");
    let script = format!("for n in 0 1 2; do ln -s '{}' '{host}'.$n; done; mkfifo '{host}'.3", target.display());
    let planted = Command::new("sh").args(["-ec", &script]).current_dir(&shared).uid(12_345).status().unwrap();
    assert!(planted.success());
    s.run(&["run", "one.yaml"]).code(0);
    assert!(!target.exists());
}

//! A disk that fills up, a store that turns read-only in mid-run: a clear error, and what was published before is intact.
//!
//! These mount a small file system and need the right to; without it they say so and pass nothing off as tested.

use crate::kit::{Sandbox, wait_for};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own in memory.
struct Mount(PathBuf);

impl Mount {
    fn new(folder: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&folder).output();
        if mounted.is_ok_and(|o| o.status.success()) {
            return Some(Self(folder));
        }
        println!("skipped: this user may not mount a file system");
        None
    }
    fn read_only(&self) {
        assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status().unwrap().success());
    }
    fn larger(&self, size: &str) {
        assert!(Command::new("mount").args(["-o", &format!("remount,rw,size={size}")]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

const SMALL: &str = "version: 1\nname: small\nstages:\n  small:\n    run: echo 1 > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n";

fn store_of(mount: &Path) -> String {
    mount.join("store").display().to_string()
}

#[test]
fn a_full_disk_is_a_clear_error_and_the_same_command_goes_on_once_there_is_room() {
    let s = Sandbox::new();
    let Some(mount) = Mount::new(s.path("disk"), "512k") else { return };
    let store = store_of(&mount.0);
    s.write("small.yaml", SMALL);
    s.run(&["run", "small.yaml", "--store", &store]).code(0);
    s.write("big.yaml", format!("{SMALL}  big:\n    run: head -c 2000000 /dev/urandom > ${{{{ outputs.o }}}}/x\n    outputs: {{o: {{kind: files}}}}\n    needs: [small]\n"));
    let ran = s.run(&["run", "big.yaml", "--store", &store]);
    assert!(matches!(ran.code, 1 | 3), "{}\n{}", ran.code, ran.stderr);
    assert!(
        ran.stderr.to_lowercase().contains("no space") || ran.stdout.to_lowercase().contains("no space"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    mount.larger("16m");
    s.run(&["run", "small.yaml", "--store", &store]).code(0);
    s.run(&["run", "big.yaml", "--store", &store]).code(0);
}

#[test]
fn a_store_that_turns_read_only_ends_the_run_and_keeps_what_was_published() {
    let s = Sandbox::new();
    let Some(mount) = Mount::new(s.path("disk"), "16m") else { return };
    let store = store_of(&mount.0);
    let (started, go) = (s.path("started"), s.path("go"));
    s.write(
        "two.yaml",
        format!(
            "version: 1\nname: two\nstages:\n  first:\n    run: echo 1 > ${{{{ outputs.o }}}}/x\n    outputs: {{o: {{kind: files}}}}\n  second:\n    with: {{i: \"${{{{ stages.first.o }}}}\"}}\n    run: touch {}; while [ ! -e {} ]; do sleep 0.05; done; echo 2 > ${{{{ outputs.o }}}}/x\n    outputs: {{o: {{kind: files}}}}\n",
            started.display(),
            go.display()
        ),
    );
    let child = s.spawn(&["run", "two.yaml", "--store", &store]);
    wait_for("the second stage", 20, || started.exists());
    mount.read_only();
    s.write("go", "");
    let ran = crate::kit::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.to_lowercase().contains("read-only"), "{}", ran.stderr);
    s.run(&["artifacts", "export", "latest/first/o", "out", "--store", &store]).code(0);
    assert_eq!(s.read("out/x"), "1\n");
    mount.larger("16m");
    s.run(&["run", "two.yaml", "--store", &store, "--take-over"]).code(0);
}

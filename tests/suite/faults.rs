//! Disk faults: a disk that fills up, a store that turns read-only and one that is removed mid-run give a clear error,
//! and published artifacts stay intact.
//!
//! Most of these tests mount a small file system and are skipped without permission. With `TRAINYARD_TEST_MOUNTS` set
//! (`.ci/run` sets it if it may mount) a skip is a failure.

use crate::kit::{Ran, Sandbox, ran, skipped, wait_for};
use crate::published::{intact, publish, readable};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// An in-memory file system.
struct Mount(TempDir);

impl Mount {
    #[track_caller]
    fn new(size: &str) -> Option<Self> {
        let folder = TempDir::with_prefix("trainyard-mount-").unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|o| o.status.success()) {
            return Some(Self(folder));
        }
        assert!(
            std::env::var_os("TRAINYARD_TEST_MOUNTS").is_none(),
            "TRAINYARD_TEST_MOUNTS is set, but nothing can be mounted"
        );
        skipped("this user may not mount a file system");
        None
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    /// Creates a sandbox whose store is on this disk.
    fn sandbox(&self) -> Sandbox {
        Sandbox::new().with_store(self.path().join("store").display().to_string())
    }
    fn remount(&self, options: &str) {
        assert!(
            Command::new("mount")
                .args(["-o", &format!("remount,{options}")])
                .arg(self.path())
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

const BIG: &str = r#"
version: 1
name: big
stages:
  big:
    run: head -c 2000000 /dev/urandom > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
    retry: {attempts: 1}
"#;

#[test]
fn full_disk_is_a_clear_error_and_the_run_continues_once_there_is_room() {
    let Some(mount) = Mount::new("1m") else { return };
    let s = mount.sandbox();
    let before = publish(&s);
    s.write("big.yaml", BIG);
    // The output does not fit, but the journal does: the stage fails.
    s.run(&["run", "big.yaml"])
        .code(1)
        .says("big: failed: cannot write")
        .says("No space left on device")
        .says("free some space");
    intact(&s, &before);
    // No space is left: no run can start.
    let ballast = mount.path().join("ballast");
    assert!(std::fs::write(&ballast, vec![1; 2 << 20]).is_err());
    s.run(&["run", "big.yaml"]).code(3).says("No space left on device").says("free some space");
    readable(&s, &before);
    std::fs::remove_file(&ballast).unwrap();
    intact(&s, &before);
    mount.remount("size=16m");
    s.run(&["run", "big.yaml"]).code(0);
    intact(&s, &before);
}

const TWO: &str = r#"
version: 1
name: two
stages:
  first:
    run: echo first >> @log; echo 1 > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
  second:
    with: {i: "${{ stages.first.o }}"}
    run: touch @started; while [ ! -e @go ]; do sleep 0.05; done; echo 2 > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
"#;

/// Runs two stages and calls `happens` during the second one.
fn in_mid_run(s: &Sandbox, happens: impl FnOnce()) -> Ran {
    s.write_placed("two.yaml", TWO);
    let child = s.spawn(&["run", "two.yaml"]);
    wait_for("the second stage", 20, || s.path("started").exists());
    happens();
    s.write("go", "");
    ran(child.wait_with_output().unwrap())
}

#[test]
fn store_that_is_removed_in_mid_run_is_a_clear_error_and_stays_removed() {
    let s = Sandbox::new();
    in_mid_run(&s, || std::fs::remove_dir_all(s.store()).unwrap()).code(3).says("is gone");
    assert!(!s.store().exists());
}

#[test]
fn read_only_store_ends_the_run_and_keeps_published_artifacts() {
    let Some(mount) = Mount::new("16m") else { return };
    let s = mount.sandbox();
    let before = publish(&s);
    in_mid_run(&s, || mount.remount("ro")).code(3).says("Read-only file system").says("make it writable");
    readable(&s, &before);
    s.run(&["artifacts", "export", "latest/first/o", "out"]).code(0);
    assert_eq!(s.read("out/x"), "1\n");
    s.run(&["run", "two.yaml"]).code(3).says("Read-only file system");
    mount.remount("rw");
    s.run(&["run", "two.yaml"]).code(0).says("resuming run");
    assert_eq!(s.read("log"), "first\n", "published stages are not computed again");
    intact(&s, &before);
}

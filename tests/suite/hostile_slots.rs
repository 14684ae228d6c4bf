//! Hostile folders of slots, as another member of the group may leave them: a run takes its slots or names the file. It
//! follows no link.

use crate::hostile::{assert_none, bounded, message};
use crate::kit::Sandbox;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const ONE: &str = "version: 1\nname: one\nstages:\n  one: {run: 'true', cache: false}\n";

/// Name, change of the folder by the name of this host, words of the error; no words where the run succeeds.
type Case = (&'static str, fn(&Path, &str), Option<&'static str>);

const CASES: &[Case] = &[
    ("a dangling link as a holding", |f, host| symlink("../target", f.join(format!("{host}.0"))).unwrap(), None),
    ("links as all holdings", |f, host| (0..64).for_each(|n| link(f, &format!("{host}.{n}"))), None),
    ("links as waiting requests", |f, host| (0..64).for_each(|n| link(f, &format!("{host}.wait.{n}"))), None),
    ("a link to a file of the user", |f, host| symlink("../../one.yaml", f.join(format!("{host}.0"))).unwrap(), None),
    ("a pipe as a holding", |f, host| pipe(&f.join(format!("{host}.0"))), None),
    ("a folder as a holding", |f, host| fs::create_dir(f.join(format!("{host}.0"))).unwrap(), None),
    ("a record of 20 GiB", |f, host| large(&f.join(format!("{host}.0"))), None),
    ("a record of other bytes", |f, host| fs::write(f.join(format!("{host}.0")), [0xff_u8; 100]).unwrap(), None),
    ("a record of all slots that nobody holds", |f, host| claim(&f.join(format!("{host}.0"))), None),
    ("a name of escape sequences", |f, _| fs::write(f.join("\u{1b}[2J.0"), "x").unwrap(), None),
    ("a pipe as the lock", |f, _| pipe(&f.join("lock")), Some("not a regular file")),
    ("a link as the lock", |f, _| link(f, "lock"), Some("slots/lock")),
    ("a folder as the lock", |f, _| fs::create_dir(f.join("lock")).unwrap(), Some("slots/lock")),
];

pub fn count() -> usize {
    CASES.len()
}

fn link(folder: &Path, name: &str) {
    symlink("../target", folder.join(name)).unwrap();
}

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn large(path: &Path) {
    fs::File::create(path).unwrap().set_len(20 << 30).unwrap();
}

fn claim(path: &Path) {
    let holder = serde_json::json!({"user": 0, "run": "r\u{1b}]0;P\u{7}", "workflow": "w", "stage": "s"});
    let record =
        serde_json::json!({"cpus": 1_u64 << 30, "memory": 1_u64 << 60, "gpus": [], "holder": holder, "since": 0});
    fs::write(path, record.to_string()).unwrap();
}

#[test]
fn hostile_folders_of_slots_are_survived_or_named() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_string();
    let mut failures = Vec::new();
    for (name, change, words) in CASES {
        let s = Sandbox::new();
        s.write("one.yaml", ONE);
        fs::create_dir_all(s.path("home/slots")).unwrap();
        change(&s.path("home/slots"), &host);
        let ran = bounded(&s, name, &["run", "one.yaml"]);
        let said = message(&ran);
        let is_expected = match words {
            None => ran.code == 0,
            Some(words) => ran.code > 0 && said.contains(words),
        };
        let followed = s.path("home/target").exists() || s.read("one.yaml") != ONE;
        if !is_expected || followed || said.contains("panicked") {
            failures.push(format!("{name}: exit code {}, followed {followed}: {said}", ran.code));
        }
    }
    assert_none(&failures);
}

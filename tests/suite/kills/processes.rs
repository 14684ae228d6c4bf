//! Finds and kills processes of one sandbox, by its folder of machine-wide files in their environment.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

/// Text in the environment of all processes of a sandbox.
pub struct Marked(Vec<u8>);

impl Marked {
    pub fn new(home: &Path) -> Self {
        Self([b"TRAINYARD_HOME=", home.as_os_str().as_bytes()].concat())
    }
    /// Returns the ids of all living processes.
    pub fn all(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut found: Vec<u32> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| self.is_here(*pid))
            .collect();
        found.sort_unstable();
        found
    }
    /// Returns the ids of those processes that are attempts.
    pub fn attempts(&self) -> Vec<u32> {
        self.all()
            .into_iter()
            .filter(|pid| words(*pid, "cmdline").get(1).is_some_and(|word| word == b"attempt"))
            .collect()
    }
    /// The environment of a zombie is empty.
    fn is_here(&self, pid: u32) -> bool {
        words(pid, "environ").contains(&self.0)
    }
}

/// Reads a list from `/proc` of a process that may have ended.
fn words(pid: u32, file: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// Sends SIGKILL to the processes that still exist.
pub fn kill(pids: &[u32]) {
    if !pids.is_empty() {
        Command::new("kill").arg("-9").args(pids.iter().map(u32::to_string)).output().unwrap();
    }
}

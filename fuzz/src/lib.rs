//! Shared parts of the targets.

use std::path::{Path, PathBuf};
use std::sync::Once;
use tempfile::TempDir;

/// Lets the code under test catch panics of libraries that it contains. libFuzzer's hook would end the process first. A
/// panic that leaves the target still ends it.
pub fn permit_caught_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
}

/// Folder of the files of one input.
pub struct Scratch(TempDir);

impl Scratch {
    /// Creates the folder, in memory where the system has such a file system.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Self(folder.expect("a folder can be created"))
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Splits an input at its first line of `####`; without one, the second part is empty.
pub fn two_parts(data: &[u8]) -> (&[u8], &[u8]) {
    let line = b"\n####\n";
    match data.windows(line.len()).position(|window| window == line) {
        Some(at) => (&data[..at], &data[at + line.len()..]),
        None => (data, &[]),
    }
}

//! Isolates a process that only computes: it keeps the files that are open, and can reach nothing else.
//!
//! Landlock forbids files to the first thread and to those that it starts later. Seccomp then forbids files, sockets,
//! processes and threads to all threads at once. Each is left out where the kernel does not have it, and neither needs
//! the other.

use super::files;
use super::support;
use super::system_calls::SystemCalls;

/// State of a process that can open no file any more, and features of its kernel that were read before.
#[derive(Debug, Clone, Copy)]
pub struct FilesForbidden {
    has_seccomp: bool,
}

/// Takes all files from this thread and those that it will start, permanently. The process must have no other thread.
pub fn forbid_files() -> Result<FilesForbidden, String> {
    let has_seccomp = support::has_known_system_calls() && support::has_seccomp();
    files::forbid()?;
    Ok(FilesForbidden { has_seccomp })
}

impl FilesForbidden {
    /// Restricts all threads of this process permanently to computing with what they have. None can start another one.
    pub fn forbid_the_rest(self) -> Result<(), String> {
        if self.has_seccomp { SystemCalls::Computing.restrict_process() } else { Ok(()) }
    }
}

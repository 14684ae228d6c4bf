//! Holds the files and the command of a one-shot program, and chooses its variables.

use crate::folder::ProgramFolder;
use crate::options::ProgramOptions;
use crate::program::VARIABLES;
use std::ffi::OsString;
use std::path::Path;
use trainyard_core::Result;

/// Variables that fix the order of Python's sets, keep bytecode out of the folder, and send each line at once.
pub const PYTHON_VARIABLES: [(&str, &str); 3] =
    [("PYTHONHASHSEED", "0"), ("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUNBUFFERED", "1")];

/// Files of a program, in a folder that is removed when this value is dropped.
pub struct OneShotFolder {
    folder: ProgramFolder,
}

impl OneShotFolder {
    /// Copies the files that the command and `files` name. Errors: invalid (a file is missing), those of the disk.
    pub fn create(command: &[String], files: &[String]) -> Result<Self> {
        let options = ProgramOptions { command: command.to_vec(), files: files.to_vec(), ..ProgramOptions::default() };
        Ok(Self { folder: ProgramFolder::create(&options)? })
    }
    /// Returns the working folder of the program.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
    /// Returns the command, in which files of the program are named by their places in the folder.
    pub fn command(&self) -> &[String] {
        &self.folder.command
    }
    /// Replaces the command, as by one that runs it in a container. `stop` is run after the program was killed, and may
    /// be empty.
    pub fn set_command(&mut self, command: Vec<String>, stop: Vec<String>) {
        (self.folder.command, self.folder.stop) = (command, stop);
    }
    /// Returns the command to run after the program was killed; may be empty.
    pub fn stop(&self) -> &[String] {
        &self.folder.stop
    }
}

/// Returns the variables of a program: those that all programs get, those of this process that `passed` names, and
/// those of `set`.
pub fn program_environment(passed: &[String], set: &[(&str, String)]) -> Vec<(String, OsString)> {
    let named = VARIABLES.into_iter().chain(passed.iter().map(String::as_str));
    let named = named.filter_map(|name| Some((name.to_string(), std::env::var_os(name)?)));
    let python = PYTHON_VARIABLES.iter().map(|(name, value)| ((*name).to_string(), OsString::from(value)));
    let set = set.iter().map(|(name, value)| ((*name).to_string(), OsString::from(value)));
    named.chain(python).chain(set).collect()
}

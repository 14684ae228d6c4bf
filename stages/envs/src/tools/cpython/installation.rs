//! Finds the user's interpreter: its version, its path, and the files that it needs to run.
//!
//! The interpreter itself supplies these facts, outside the sandbox and in the user's environment, as `python3` on a
//! command line would run. This way, virtual environments, user packages and version managers need no special support.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trainyard_core::{Error, Result};

const PROBE: &str = include_str!("probe.py");
/// Variables with an interpreter's search paths of packages and libraries.
const SEARCH_PATHS: [&str; 2] = ["PYTHONPATH", "LD_LIBRARY_PATH"];

/// An interpreter on this machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Installation {
    /// Implementation: `cpython`, because others are rejected.
    pub implementation: String,
    /// Version, such as `3.11.7`.
    pub version: String,
    /// Program to start. In a virtual environment, the path is that of its link, by which the interpreter finds the
    /// packages.
    pub executable: PathBuf,
    /// Files and folders that programs may read.
    pub reads: Vec<PathBuf>,
    /// The interpreter and the loader of shared libraries.
    pub executes: Vec<PathBuf>,
    /// Folder of user packages; `None` if the interpreter does not use it.
    pub user_base: Option<String>,
    /// Environment variables to set: those of [`SEARCH_PATHS`] that the interpreter uses, with their values.
    #[serde(default)]
    pub search_paths: Vec<(String, String)>,
}

impl Installation {
    /// Runs `program` (`python3` of the PATH by default) outside the sandbox and returns the facts that it reports.
    /// With a `version` (`3.11`), the interpreter must have that version.
    ///
    /// Errors: invalid, if the program does not run, is not CPython, or has another version.
    pub fn find(program: Option<&Path>, version: Option<&str>) -> Result<Self> {
        let name = program.unwrap_or(Path::new("python3"));
        let help = "install Python 3, or set `program` of the tool `python` to an interpreter";
        let failed = |reason: String| Error::invalid(format!("cannot run `{}`: {reason}", name.display())).help(help);
        let mut command = Command::new(name);
        // The root has no modules. In any other current folder, the interpreter would import those there.
        command.args(["-c", PROBE]).current_dir("/").stdin(Stdio::null());
        let output = command.output().map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(failed(stderr.lines().last().unwrap_or("it failed without output").to_string()));
        }
        let mut found: Self =
            serde_json::from_slice(&output.stdout).map_err(|e| failed(format!("invalid output of the probe: {e}")))?;
        found.accept(name, version)?;
        for name in SEARCH_PATHS {
            if let Ok(value) = std::env::var(name) {
                found.reads.extend(std::env::split_paths(&value));
                found.search_paths.push((name.to_string(), value));
            }
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        found.reads.retain(|path| path.is_absolute() && !is_too_wide(path, &home));
        Ok(found)
    }
    /// Returns the name in logs: `CPython 3.11.7 (/usr/bin/python3)`.
    pub fn describe(&self) -> String {
        format!("CPython {} ({})", self.version, self.executable.display())
    }
    fn accept(&self, name: &Path, version: Option<&str>) -> Result<()> {
        let name = name.display();
        if self.implementation != "cpython" {
            return Err(Error::invalid(format!("`{name}` is {}, not CPython", self.implementation))
                .help("set `program` of the tool `python` to a CPython"));
        }
        match version {
            Some(required) if !is_version(&self.version, required) => {
                Err(Error::invalid(format!("`{name}` is Python {}, but `version` is {required}", self.version))
                    .help("set `program` to an interpreter of that version, or change `version`"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a version is the required one. The required version may omit its last numbers.
fn is_version(version: &str, required: &str) -> bool {
    version.strip_prefix(required).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns whether a folder is the root, or contains the home folder. Such a folder is in a search path by mistake, and
/// programs must not read it.
fn is_too_wide(path: &Path, home: &Path) -> bool {
    path.parent().is_none() || (!home.as_os_str().is_empty() && home.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_whole_numbers() {
        assert!(is_version("3.11.7", "3.11") && is_version("3.11.7", "3.11.7") && is_version("3.11.7", "3"));
        assert!(!is_version("3.11.7", "3.1") && !is_version("3.11.7", "3.12") && !is_version("3.1", "3.11"));
    }

    #[test]
    fn a_search_path_does_not_open_the_home_folder() {
        let home = Path::new("/home/ada");
        for wide in ["/", "/home", "/home/ada"] {
            assert!(is_too_wide(Path::new(wide), home), "{wide}");
        }
        assert!(!is_too_wide(Path::new("/home/ada/lib"), home) && !is_too_wide(Path::new("/usr/lib"), home));
        assert!(!is_too_wide(Path::new("/usr/lib"), Path::new("")));
    }

    #[test]
    fn programs_that_are_no_interpreter_are_reported() {
        for program in ["/nowhere/python3", "/bin/false"] {
            let error = Installation::find(Some(Path::new(program)), None).unwrap_err();
            assert!(error.message.contains(&format!("cannot run `{program}`")), "{error}");
            assert!(error.help.unwrap().contains("`program`"));
        }
    }
}

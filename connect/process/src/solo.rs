//! A program that is run once, without a protocol: started in a separate folder, its output read, and waited for.
//!
//! The caller interprets the output later, so the last lines are kept; all lines are logged.

use crate::folder::Folder;
use crate::options::ProgramOptions;
use crate::program::{VARIABLES, in_words, kill_group, not_started};
use crate::words::{Log, Words};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Timeout for the pipes of an ended program to become empty: a descendant may hold them open.
const DRY: Duration = Duration::from_secs(1);

/// Files of a program, in a folder that is removed with this.
pub struct Home(Folder);

impl Home {
    /// Copies the files that the command and `files` name. Errors: invalid (a file is missing), those of the disk.
    pub fn lay_out(command: &[String], files: &[String]) -> Result<Self> {
        let options = ProgramOptions { command: command.to_vec(), files: files.to_vec(), ..ProgramOptions::default() };
        Folder::lay_out(&options).map(Self)
    }
    /// Returns the working folder of the program.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    /// Starts the program in a separate process group. It gets the variables that all programs get, those of this
    /// process that `passed` names, and `set`.
    ///
    /// Errors: invalid (there is no such program), retryable.
    pub fn start(self, passed: &[String], set: &[(&str, String)], log: Log) -> Result<Solo> {
        self.start_with(Stdio::null(), passed, set, log)
    }
    /// Starts a program whose standard input is `input`.
    pub fn start_with(self, input: Stdio, passed: &[String], set: &[(&str, String)], log: Log) -> Result<Solo> {
        let (name, arguments) = self.0.command.split_first().ok_or_else(|| Error::invalid("no program is named"))?;
        let mut starting = Command::new(name);
        starting.args(arguments).current_dir(self.path()).env_clear().process_group(0);
        let named = VARIABLES.into_iter().chain(passed.iter().map(String::as_str));
        starting.envs(named.filter_map(|name| Some((name, std::env::var_os(name)?))));
        starting.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
        starting.envs(set.iter().map(|(name, value)| (name, value)));
        starting.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = starting.spawn().map_err(|e| not_started(name, &e))?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Error::bug("a program was started without pipes"));
        };
        let (said, output) = (hear("output", output, log.clone()), hear("errors", errors, log));
        Ok(Solo { child, said: said?, errors: output?, over: false, _home: self })
    }
}

/// Result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Whether the status was 0.
    pub well: bool,
    /// Description: `exited with status 1`.
    pub how: String,
    /// Last lines of its standard output, one below the other.
    pub said: String,
    /// Last lines of its standard error.
    pub errors: String,
}

/// A running program. Killed with all its descendants when it is dropped.
pub struct Solo {
    child: Child,
    said: Receiver<String>,
    errors: Receiver<String>,
    /// Whether the program has ended, so that another process may have its id.
    over: bool,
    _home: Home,
}

impl Solo {
    /// Returns the program's result, or `None` while it runs.
    pub fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().ok().flatten()?;
        self.over = true;
        Some(self.end(status))
    }
    fn end(&self, status: ExitStatus) -> Ended {
        // Descendants that still run are killed.
        kill_group(self.child.id());
        let last = |words: &Receiver<String>| words.recv_timeout(DRY).unwrap_or_default();
        let (said, errors) = (last(&self.said), last(&self.errors));
        Ended { well: status.success(), how: in_words(status), said, errors }
    }
}

impl Drop for Solo {
    fn drop(&mut self) {
        if !self.over {
            kill_group(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// Reads a pipe to its end on a separate thread, which then returns the last lines.
fn hear(what: &str, mut pipe: impl Read + Send + 'static, log: Log) -> Result<Receiver<String>> {
    let (give, last) = channel();
    let work = move || {
        let (mut words, mut chunk) = (Words::new(log), [0; 1 << 14]);
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => words.take(&chunk[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The receiver may be gone.
        let _ = give.send(words.last());
    };
    let thread = std::thread::Builder::new().name(format!("program-{what}"));
    thread.spawn(work).map_err(|e| Error::retryable(format!("cannot hear a program: {e}")))?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::silent;

    fn run(script: &str, set: &[(&str, String)]) -> Solo {
        let command = ["sh", "-c", script].map(str::to_string);
        Home::lay_out(&command, &[]).unwrap().start(&[], set, silent()).unwrap()
    }

    fn wait(mut solo: Solo) -> Ended {
        for _ in 0..2000 {
            if let Some(ended) = solo.ended() {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }

    #[test]
    fn a_program_is_heard_to_its_end() {
        let ended = wait(run("echo one; echo \"$WORD\"; echo no >&2; exit 3", &[("WORD", "two".to_string())]));
        assert_eq!((ended.well, ended.how.as_str()), (false, "exited with status 3"));
        assert_eq!((ended.said.as_str(), ended.errors.as_str()), ("one\ntwo", "no"));
        assert!(wait(run("true", &[])).well);
    }

    #[test]
    fn a_program_that_floods_is_bounded() {
        let ended = wait(run("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", &[]));
        assert!(ended.well && ended.said.ends_with("line 19999") && ended.said.lines().count() < 100);
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 1; touch {}) & echo started", mark.display());
        assert_eq!(wait(run(&script, &[])).said, "started");
        drop(run(&script.replace("echo started", "sleep 60"), &[]));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "neither its own end nor ours leaves anything running");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let none = Home::lay_out(&["no-such-program".to_string()], &[]).unwrap().start(&[], &[], silent());
        assert!(none.err().unwrap().message.contains("no-such-program"));
    }
}

//! Runs a program once, without a protocol: it starts in a separate folder, and its output is read until it ends.
//!
//! All lines are logged. The caller interprets the last lines after the program has ended.

use crate::descendants::{ProgramMark, kill_group};
use crate::fork_server::{ForkServer, ForkedProcess};
use crate::one_shot_folder::{OneShotFolder, program_environment};
use crate::output::{ProgramLog, spawn_reader};
use crate::program::{describe_status, spawn_error};
use crate::stop_command;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Timeout for the pipes of an ended program to become empty: a descendant may hold them open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl OneShotFolder {
    /// Forks the program from a server that has imported its packages. The environment is that of
    /// [`OneShotFolder::start`]; with an error, the folder is returned.
    pub fn fork(
        self,
        server: &ForkServer,
        passed: &[String],
        set: &[(&str, String)],
        log: ProgramLog,
    ) -> Result<OneShotProgram, Box<(Self, Error)>> {
        let mark = ProgramMark::unique();
        let marked: Vec<(&str, String)> = set.iter().cloned().chain(mark.variables()).collect();
        let started = fork_with_readers(&self, server, passed, &marked, log);
        match started {
            Err(error) => Err(Box::new((self, error))),
            Ok((process, [stdout, stderr])) => {
                let process = ProgramProcess::Forked(process);
                Ok(OneShotProgram { process, stdout, stderr, has_exited: false, mark, folder: self })
            }
        }
    }
    /// Starts the program in a separate process group. Its environment has the variables that all programs get, those
    /// of this process that `passed` names, and those of `set`.
    ///
    /// Errors: invalid (the program does not exist), retryable.
    pub fn start(self, passed: &[String], set: &[(&str, String)], log: ProgramLog) -> Result<OneShotProgram> {
        self.start_with(Stdio::null(), passed, set, log)
    }
    /// Starts a program whose standard input is `input`.
    pub fn start_with(
        self,
        input: Stdio,
        passed: &[String],
        set: &[(&str, String)],
        log: ProgramLog,
    ) -> Result<OneShotProgram> {
        let (name, arguments) = self.command().split_first().ok_or_else(|| Error::invalid("the command is empty"))?;
        let mut process = Command::new(name);
        process.args(arguments).current_dir(self.path()).env_clear().process_group(0);
        let mark = ProgramMark::unique();
        process.envs(program_environment(passed, set)).envs(mark.variables());
        process.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process.spawn().map_err(|e| spawn_error(name, &e))?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Error::bug("a program was started without pipes"));
        };
        let (stdout, stderr) = (spawn_reader("output", output, log.clone()), spawn_reader("errors", errors, log));
        let process = ProgramProcess::Child(child);
        Ok(OneShotProgram { process, stdout: stdout?, stderr: stderr?, has_exited: false, mark, folder: self })
    }
}

/// Forks a process, and starts the threads that read its output.
fn fork_with_readers(
    folder: &OneShotFolder,
    server: &ForkServer,
    passed: &[String],
    set: &[(&str, String)],
    log: ProgramLog,
) -> Result<(ForkedProcess, [Receiver<String>; 2])> {
    let pipe = || std::io::pipe().map_err(|e| Error::retryable(format!("cannot create a pipe: {e}")));
    let ((output, written), (errors, errors_written)) = (pipe()?, pipe()?);
    let readers = [spawn_reader("output", output, log.clone())?, spawn_reader("errors", errors, log)?];
    let process = server.fork(folder, passed, set, [OwnedFd::from(written), OwnedFd::from(errors_written)])?;
    Ok((process, readers))
}

/// Exit of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramExit {
    /// Whether the status was 0.
    pub success: bool,
    /// Description: `exited with status 1`.
    pub status: String,
    /// Last lines of the program's standard output, joined by line breaks.
    pub stdout: String,
    /// Last lines of the program's standard error.
    pub stderr: String,
}

/// Process of a program.
enum ProgramProcess {
    Child(Child),
    Forked(ForkedProcess),
}

impl ProgramProcess {
    fn id(&self) -> u32 {
        match self {
            Self::Child(child) => child.id(),
            Self::Forked(process) => process.pid,
        }
    }
    fn try_wait(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Child(child) => child.try_wait().ok().flatten(),
            Self::Forked(process) => process.try_wait(),
        }
    }
    /// Waits for the end of the killed process.
    fn wait(&mut self) {
        match self {
            Self::Child(child) => drop(child.wait()),
            Self::Forked(process) => process.wait(DRAIN_TIMEOUT),
        }
    }
}

/// A running program. Dropping it kills the program with everything that it started.
pub struct OneShotProgram {
    process: ProgramProcess,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    /// Whether the program has ended, so that another process may reuse its id.
    has_exited: bool,
    /// Mark of everything that the program starts.
    mark: ProgramMark,
    folder: OneShotFolder,
}

impl OneShotProgram {
    /// Returns the program's exit, or `None` while it runs.
    pub fn poll_exit(&mut self) -> Option<ProgramExit> {
        let status = self.process.try_wait()?;
        self.has_exited = true;
        Some(self.end(status))
    }
    fn end(&self, status: ExitStatus) -> ProgramExit {
        // Kills descendants that still run. While one is in the group, no other group has its id.
        kill_group(self.process.id());
        self.mark.kill(None);
        if status.code().is_none() {
            self.run_stop();
        }
        let last = |lines: &Receiver<String>| lines.recv_timeout(DRAIN_TIMEOUT).unwrap_or_default();
        let (stdout, stderr) = (last(&self.stdout), last(&self.stderr));
        ProgramExit { success: status.success(), status: describe_status(status), stdout, stderr }
    }
    /// Runs the stop command of a program that was killed.
    fn run_stop(&self) {
        stop_command::run(self.folder.stop(), &self.mark);
    }
}

impl Drop for OneShotProgram {
    fn drop(&mut self) {
        if !self.has_exited {
            self.mark.kill(Some(self.process.id()));
            self.process.wait();
            self.run_stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::null_log;

    fn run(script: &str, set: &[(&str, String)]) -> OneShotProgram {
        let command = ["sh", "-c", script].map(str::to_string);
        OneShotFolder::create(&command, &[]).unwrap().start(&[], set, null_log()).unwrap()
    }

    fn wait(mut program: OneShotProgram) -> ProgramExit {
        for _ in 0..2000 {
            if let Some(exit) = program.poll_exit() {
                return exit;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the program does not end");
    }

    #[test]
    fn output_and_status_are_returned() {
        let exit = wait(run("echo one; echo \"$WORD\"; echo no >&2; exit 3", &[("WORD", "two".to_string())]));
        assert_eq!((exit.success, exit.status.as_str()), (false, "exited with status 3"));
        assert_eq!((exit.stdout.as_str(), exit.stderr.as_str()), ("one\ntwo", "no"));
        assert!(wait(run("true", &[])).success);
    }

    #[test]
    fn output_is_bounded() {
        let exit = wait(run("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", &[]));
        assert!(exit.success && exit.stdout.ends_with("line 19999") && exit.stdout.lines().count() < 100);
    }

    #[test]
    fn descendants_end_with_program() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 1; touch {}) & echo started", mark.display());
        assert_eq!(wait(run(&script, &[])).stdout, "started");
        drop(run(&script.replace("echo started", "sleep 60"), &[]));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "no descendant runs after an exit or a drop");
    }

    #[test]
    fn sessions_and_orphans_end_with_program() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let touch = format!("'sleep 1; touch {}' < /dev/null > /dev/null 2>&1", mark.display());
        for script in [
            format!("setsid sh -c {touch} & echo started"),
            format!("(setsid sh -c {touch} &); echo started; sleep 60"),
            format!("env -i setsid sh -c {touch} & sleep 60"),
        ] {
            let program = run(&script, &[]);
            if script.ends_with("started") {
                assert_eq!(wait(program).stdout, "started");
            } else {
                std::thread::sleep(Duration::from_millis(300));
                drop(program);
            }
        }
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "a process in a separate session outlived its program");
    }

    #[test]
    fn stop_command_runs_after_a_killed_program_only() {
        let home = tempfile::tempdir().unwrap();
        let mark = home.path().join("mark");
        let start = |script: &str| {
            let mut folder = OneShotFolder::create(&["sh".to_string()], &[]).unwrap();
            let words = |script: &str| ["sh", "-c", script].map(str::to_string).to_vec();
            folder.set_command(words(script), words(&format!("echo stopped >> {}", mark.display())));
            folder.start(&[], &[], null_log()).unwrap()
        };
        assert!(!wait(start("exit 3")).success && !mark.exists(), "it ended by itself");
        drop(start("sleep 60"));
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "stopped\n");
        assert_eq!(wait(start("kill -9 $$")).status, "was killed by signal 9");
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "stopped\nstopped\n");
    }

    #[test]
    fn missing_program_is_reported() {
        let none = OneShotFolder::create(&["no-such-program".to_string()], &[]).unwrap().start(&[], &[], null_log());
        assert!(none.err().unwrap().message.contains("no-such-program"));
    }
}

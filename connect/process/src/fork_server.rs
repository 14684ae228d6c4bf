//! Runs `trainyard_fork.py`, from whose process the processes of a Python program are forked, so that its packages are
//! imported once.
//!
//! The server reads requests from a socket, which bring the pipes for the output of their process, and writes a line
//! for each start and each end. It ends, with all its processes, when the socket is closed.

use crate::descendants::ProgramMark;
use crate::one_shot_folder::{OneShotFolder, program_environment};
use crate::output::{ProgramLog, spawn_reader};
use crate::program::spawn_error;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Source of the server.
const SERVER: &str = include_str!("../../../python/trainyard_fork.py");
const SERVER_NAME: &str = "trainyard_fork.py";
/// Time in which the packages must be imported.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// Time in which a process must be forked.
const FORK_TIMEOUT: Duration = Duration::from_secs(30);
/// Status of processes whose server has ended: killed.
const KILLED: i32 = 9;

/// A line of the server.
#[derive(Debug, Deserialize)]
struct ServerLine {
    id: Option<u64>,
    pid: Option<u32>,
    status: Option<i32>,
    failed: Option<String>,
    r#unsafe: Option<String>,
}

/// A request for a process.
#[derive(Serialize)]
struct ForkRequest<'a> {
    id: u64,
    folder: &'a Path,
    arguments: &'a [String],
    variables: BTreeMap<&'a str, String>,
}

/// Senders of lines by the numbers of their processes, and the number of the last process.
#[derive(Default)]
struct Forks {
    last: u64,
    receivers: BTreeMap<u64, Sender<ServerLine>>,
}

/// A process that has imported the packages of a program. Dropping it ends the process and all that were forked.
pub struct ForkServer {
    child: Child,
    /// Requests are written one at a time.
    control: Mutex<UnixStream>,
    forks: Arc<Mutex<Forks>>,
    /// Mark of what the imports start, and of processes that a fork started without another program.
    mark: ProgramMark,
    _folder: OneShotFolder,
}

/// A forked process.
pub struct ForkedProcess {
    pub pid: u32,
    lines: Receiver<ServerLine>,
    status: Option<ExitStatus>,
}

impl ForkServer {
    /// Returns whether the processes of a command may be forked: on Linux, those of `python3 program.py …`, where the
    /// program is a file.
    pub fn is_applicable(command: &[String]) -> bool {
        let [python, script, ..] = command else { return false };
        let name = python.rsplit('/').next().unwrap_or(python);
        let version = name.strip_prefix("python").unwrap_or("-");
        let is_python = version.chars().all(|c| c.is_ascii_digit() || c == '.');
        cfg!(target_os = "linux") && is_python && script.ends_with(".py") && Path::new(script).is_file()
    }
    /// Starts the server for the program of a folder, and waits until the packages are imported. `set` are variables
    /// that all processes get. Errors: invalid (Python does not exist), retryable; with the reason why processes cannot
    /// be forked.
    pub fn start(folder: OneShotFolder, passed: &[String], set: &[(&str, String)], log: ProgramLog) -> Result<Self> {
        let [python, script, ..] = folder.command() else { return Err(Error::bug("a fork server without a script")) };
        let server = folder.path().join(SERVER_NAME);
        std::fs::write(&server, SERVER).map_err(|e| io_error(&server, &e))?;
        let (control, theirs) = UnixStream::pair().map_err(|e| socket_error(&e))?;
        let mut process = Command::new(python);
        process.args([SERVER_NAME, script.as_str()]).current_dir(folder.path()).env_clear().process_group(0);
        let mark = ProgramMark::unique();
        process.envs(program_environment(passed, set)).envs(mark.variables());
        process.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process.spawn().map_err(|e| spawn_error(python, &e))?;
        // The command has its own copy of the other end, which would keep the socket open.
        drop(process);
        let output = child.stdout.take().map(|pipe| spawn_reader("output", pipe, log.clone()));
        let errors = child.stderr.take().map(|pipe| spawn_reader("errors", pipe, log));
        let forks = Arc::new(Mutex::new(Forks::default()));
        let lines = control.try_clone().map_err(|e| socket_error(&e))?;
        let server = Self { child, control: Mutex::new(control), forks, mark, _folder: folder };
        // The last lines are in the log.
        output.transpose()?;
        errors.transpose()?;
        let (sender, first) = channel();
        server.lock().receivers.insert(0, sender);
        let forks = Arc::clone(&server.forks);
        let thread = std::thread::Builder::new().name("fork-server".into());
        thread
            .spawn(move || read_lines(lines, &forks))
            .map_err(|e| Error::retryable(format!("cannot start the thread of a fork server: {e}")))?;
        match first.recv_timeout(READY_TIMEOUT) {
            Ok(ServerLine { r#unsafe: None, .. }) => Ok(server),
            Ok(ServerLine { r#unsafe: Some(reason), .. }) => Err(Error::invalid(reason)),
            Err(RecvTimeoutError::Timeout) => Err(Error::retryable("the imports of the program take too long")),
            Err(RecvTimeoutError::Disconnected) => Err(Error::retryable("the process with its imports has ended")),
        }
    }
    /// Forks a process that runs the program of `folder`, with `output` and `errors` as its standard output and error.
    /// Errors: data (a variable is not Unicode), retryable.
    pub fn fork(
        &self,
        folder: &OneShotFolder,
        passed: &[String],
        set: &[(&str, String)],
        [output, errors]: [OwnedFd; 2],
    ) -> Result<ForkedProcess> {
        let mut variables = BTreeMap::new();
        let environment = program_environment(passed, set);
        for (name, value) in &environment {
            let value = value.to_str().ok_or_else(|| Error::data(format!("the variable `{name}` is not Unicode")))?;
            variables.insert(name.as_str(), value.to_string());
        }
        let arguments = folder.command().get(1..).unwrap_or_default();
        let (sender, lines) = channel();
        let id = {
            let mut forks = self.lock();
            forks.last += 1;
            let id = forks.last;
            forks.receivers.insert(id, sender);
            id
        };
        let request = ForkRequest { id, folder: folder.path(), arguments, variables };
        let body = serde_json::to_vec(&request).map_err(|e| Error::bug(format!("a request has no JSON form: {e}")))?;
        self.send(&body, [&output, &errors]).map_err(|e| socket_error(&e))?;
        match lines.recv_timeout(FORK_TIMEOUT) {
            Ok(ServerLine { pid: Some(pid), .. }) => Ok(ForkedProcess { pid, lines, status: None }),
            Ok(ServerLine { failed, .. }) => {
                Err(Error::retryable(format!("cannot fork a process: {}", failed.unwrap_or_default())))
            }
            Err(_) => Err(Error::retryable("cannot fork a process: the process with its imports has ended")),
        }
    }
    fn send(&self, body: &[u8], pipes: [&OwnedFd; 2]) -> io::Result<()> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let length = u32::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
        let pipes = pipes.map(|pipe| pipe.as_fd());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&pipes));
        let sent = sendmsg(&*control, &[IoSlice::new(&length)], &mut rights, SendFlags::NOSIGNAL)?;
        control.write_all(&length[sent..])?;
        control.write_all(body)
    }
    fn lock(&self) -> MutexGuard<'_, Forks> {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = control.shutdown(std::net::Shutdown::Both);
        drop(control);
        self.mark.kill(Some(self.child.id()));
        let _ = self.child.wait();
    }
}

impl ForkedProcess {
    /// Returns the exit status, or `None` while the process runs. A process whose server has ended was killed.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = match self.lines.try_recv() {
                Ok(line) => Some(ExitStatus::from_raw(line.status.unwrap_or(KILLED))),
                Err(TryRecvError::Disconnected) => Some(ExitStatus::from_raw(KILLED)),
                Err(TryRecvError::Empty) => None,
            };
        }
        self.status
    }
    /// Waits for the end of a killed process, at most for `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        if self.status.is_none() {
            let line = self.lines.recv_timeout(timeout);
            self.status = line.ok().map(|line| ExitStatus::from_raw(line.status.unwrap_or(KILLED)));
        }
    }
}

/// Passes the lines of the server to their receivers until the server ends; then all receivers are disconnected. The
/// first line has the number 0.
fn read_lines(socket: UnixStream, forks: &Mutex<Forks>) {
    for line in BufReader::new(socket).lines() {
        let Ok(line) = line else { break };
        let Ok(line) = serde_json::from_str::<ServerLine>(&line) else { break };
        let (id, is_last) = (line.id.unwrap_or_default(), line.pid.is_none());
        let mut forks = forks.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = if is_last { forks.receivers.remove(&id) } else { forks.receivers.get(&id).cloned() };
        // The receiver may have been dropped.
        drop(receiver.map(|receiver| receiver.send(line)));
    }
    forks.lock().unwrap_or_else(PoisonError::into_inner).receivers.clear();
}

fn socket_error(error: &io::Error) -> Error {
    Error::retryable(format!("cannot use the socket of a fork server: {error}"))
}

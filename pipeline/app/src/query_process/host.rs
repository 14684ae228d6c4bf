//! Runs a statement in a worker process: it starts the worker, waits up to the timeout, and explains a missing
//! response.

use super::{QueryRequest, QueryResponse, too_large};
use crate::wiring;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use trainyard_core::units::format_duration;
use trainyard_core::{Error, Result};
use trainyard_envs::tools::confinement;

/// Runs a statement and returns its formatted output. Errors: those of the statement; data (the statement needs more
/// time or memory than allowed); lost (the worker was killed by another process). The worker dies with the calling
/// thread.
pub async fn run_query(request: &QueryRequest, timeout: Duration) -> Result<String> {
    let text = serde_json::to_vec(request).map_err(|e| Error::bug(format!("the statement has no JSON form: {e}")))?;
    let mut worker = start()?;
    let exchanged = tokio::time::timeout(timeout, exchange(&mut worker, &text)).await;
    match exchanged {
        Ok(Ok((status, response))) => read(status, &response, request.memory),
        Ok(Err(e)) => {
            Err(Error::lost(format!("the statement's process cannot be reached: {e}")).help("run the command again"))
        }
        Err(_) => {
            // The worker may have exited in between.
            let _ = worker.kill().await;
            Err(timeout_error(timeout))
        }
    }
}

fn start() -> Result<Child> {
    let program = wiring::program()?;
    let mut command = Command::new(&program);
    command.arg("query-worker").env_clear().envs(confinement::ENVIRONMENT);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().map_err(|e| {
        Error::lost(format!("cannot start {} for the statement: {e}", program.display()))
            .help("check that the program exists and is executable")
    })
}

/// Sends the request, and returns the worker's exit status and response.
async fn exchange(worker: &mut Child, request: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = worker.stdin.take() {
        // If the worker ended before it read the request, its exit status gives the reason.
        let _ = stdin.write_all(request).await;
    }
    let mut response = Vec::new();
    if let Some(mut stdout) = worker.stdout.take() {
        stdout.read_to_end(&mut response).await?;
    }
    Ok((worker.wait().await?, response))
}

/// Returns the worker's response, or the error that its exit status implies. A worker that runs out of memory is
/// aborted by a failed allocation.
fn read(status: ExitStatus, response: &[u8], memory: u64) -> QueryResponse {
    if status.success() {
        return serde_json::from_slice::<QueryResponse>(response)
            .unwrap_or_else(|e| Err(Error::bug(format!("the statement's process sent no response: {e}"))));
    }
    if confinement::crashed(status) {
        return Err(too_large(memory));
    }
    let how =
        status.code().map_or_else(|| format!("signal {}", status.signal().unwrap_or(0)), |c| format!("exit code {c}"));
    Err(Error::lost(format!("the statement's process ended with {how}, without a response"))
        .help("if this machine ran out of memory, bound the statement with a smaller `--memory`"))
}

fn timeout_error(timeout: Duration) -> Error {
    Error::data(format!("the statement did not end within its limit of {}", format_duration(timeout))).help(
        "filter or `limit` rows in a subquery before they are joined, \
             or pass a longer `--timeout`, e.g. `--timeout 5m`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    #[test]
    fn missing_responses_are_explained_by_the_exit_status() {
        let error = |raw| read(ExitStatus::from_raw(raw), b"", 64 << 20).unwrap_err();
        // SIGABRT, SIGKILL, exit code 2, success.
        let kinds = [6, 9, 2 << 8, 0].map(|raw| error(raw).kind);
        assert_eq!(kinds, [ErrorKind::Data, ErrorKind::Lost, ErrorKind::Lost, ErrorKind::Bug]);
        assert!(error(6).message.contains("64.0 MiB"), "{}", error(6));
        assert!(error(9).message.contains("signal 9"), "{}", error(9));
        assert!(error(2 << 8).message.contains("exit code 2"), "{}", error(2 << 8));
    }

    #[test]
    fn responses_are_returned_unchanged() {
        let done = ExitStatus::from_raw(0);
        let wrong: QueryResponse = Err(Error::invalid("no such column").help("there are others"));
        for response in [Ok("a\n─\n1.0".to_string()), wrong] {
            assert_eq!(read(done, &serde_json::to_vec(&response).unwrap(), 0), response);
        }
    }
}

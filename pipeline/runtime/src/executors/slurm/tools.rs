//! Calls Slurm's command-line tools with a time limit. Tests replace the tools with recorded output.
//!
//! The tools are more portable than the REST daemon, which many sites do not run, and their column formats (`-o`, `-P`)
//! are older and more stable than their JSON output, whose structure changed between 22.05 and 23.11.

use futures::future::BoxFuture;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use trainyard_core::{Error, Result};

/// How long a tool may take. Slurm's own waits for a busy controller are shorter.
const LIMIT: Duration = Duration::from_secs(120);

/// One call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlurmCommand {
    /// Name of the tool: `sbatch`.
    pub program: &'static str,
    pub arguments: Vec<String>,
    /// Bytes for stdin.
    pub input: Vec<u8>,
    /// Added to the environment of this process.
    pub env: Vec<(OsString, OsString)>,
}

/// Result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlurmCommandOutput {
    /// Whether the exit code is 0.
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Runs Slurm's tools.
pub(super) trait SlurmTools: Send + Sync {
    /// Errors: invalid (there is no such tool), retryable (it did not finish in time).
    fn call(&self, call: SlurmCommand) -> BoxFuture<'_, Result<SlurmCommandOutput>>;
}

impl SlurmCommand {
    /// Creates a call with an empty stdin.
    pub fn new(program: &'static str, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { program, arguments: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// Maximum number of concurrent calls, since users share the controller.
const AT_ONCE: usize = 4;

/// The tools of this machine.
pub(super) struct InstalledTools(Semaphore);

impl InstalledTools {
    pub fn new() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl SlurmTools for InstalledTools {
    fn call(&self, call: SlurmCommand) -> BoxFuture<'_, Result<SlurmCommandOutput>> {
        Box::pin(async move {
            let name = call.program;
            // The semaphore is never closed.
            let _turn = self.0.acquire().await;
            match tokio::time::timeout(LIMIT, run(call)).await {
                Ok(result) => result,
                Err(_) => Err(Error::retryable(format!("`{name}` did not finish within {} s", LIMIT.as_secs()))),
            }
        })
    }
}

async fn run(call: SlurmCommand) -> Result<SlurmCommandOutput> {
    let name = call.program;
    let mut command = Command::new(name);
    command.args(&call.arguments).envs(call.env);
    for variable in std::env::vars_os().map(|(name, _)| name).filter(|n| n.to_str().is_some_and(unwanted)) {
        command.env_remove(variable);
    }
    // The job inherits the environment of `sbatch`.
    if name != "sbatch" {
        // Lists of the members of arrays are cut off after 64 bytes otherwise.
        command.env("SLURM_BITSTR_LEN", "0").env("SLURM_TIME_FORMAT", "standard");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::invalid(format!("there is no `{name}` on this machine")).help(
            "run the engine on a machine from which jobs are submitted, with Slurm's tools in its PATH, \
             or use another executor",
        ),
        _ => Error::retryable(format!("cannot start `{name}`: {e}")),
    })?;
    let stdin = child.stdin.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // A tool that does not read reports the reason on stderr.
            let _ = stdin.write_all(&call.input).await;
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), write);
    let output = output.map_err(|e| Error::retryable(format!("cannot read the output of `{name}`: {e}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let result = SlurmCommandOutput {
        success: output.status.success(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    };
    tracing::debug!(program = name, arguments = ?call.arguments, status = ?output.status, stderr = result.stderr);
    Ok(result)
}

/// Returns whether a variable would change the output of the tools, or describes a job in which this engine itself
/// runs, whose sizes the submitted jobs must not inherit. Variables for `sbatch` (`SBATCH_ACCOUNT`) are kept.
fn unwanted(name: &str) -> bool {
    let lists = ["SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_"].iter().any(|prefix| name.starts_with(prefix));
    lists || name.starts_with("SLURM_") && !matches!(name, "SLURM_CONF" | "SLURM_CONF_SERVER" | "SLURM_JWT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_surrounding_job_are_removed() {
        for name in ["SLURM_JOB_ID", "SLURM_MEM_PER_NODE", "SQUEUE_FORMAT", "SACCT_FORMAT", "SLURM_RESTART_COUNT"] {
            assert!(unwanted(name), "{name}");
        }
        for name in ["SLURM_CONF", "SBATCH_ACCOUNT", "PATH", "AWS_ACCESS_KEY_ID", "MY_SLURM_JOB"] {
            assert!(!unwanted(name), "{name}");
        }
    }

    #[tokio::test]
    async fn tool_receives_input_and_failure_is_an_output() {
        let mut call = SlurmCommand::new("sh", ["-c", "cat; echo \"$X\"; echo no >&2; exit 3"]);
        call.input = b"script\n".to_vec();
        call.env = vec![("X".into(), "value".into())];
        let output = InstalledTools::new().call(call).await.unwrap();
        let expected = SlurmCommandOutput { success: false, stdout: "script\nvalue\n".into(), stderr: "no\n".into() };
        assert_eq!(output, expected);
    }

    #[tokio::test]
    async fn unread_input_is_accepted_and_missing_tool_is_reported() {
        let mut call = SlurmCommand::new("true", [""; 0]);
        call.input = vec![b'x'; 1 << 20];
        assert!(InstalledTools::new().call(call).await.unwrap().success);
        let error = InstalledTools::new().call(SlurmCommand::new("missing-sbatch", [""; 0])).await.unwrap_err();
        assert_eq!(error.kind, trainyard_core::ErrorKind::Invalid);
        assert!(error.to_string().contains("no `missing-sbatch`"), "{error}");
    }
}

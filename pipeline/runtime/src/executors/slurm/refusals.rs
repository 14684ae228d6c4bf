//! Converts error messages of Slurm's tools to errors, which are retryable if a retry may help.

use super::tools::{SlurmCommand, SlurmCommandOutput};
use trainyard_core::Error;

/// Phrases of a controller or of munge that is unavailable or busy, and of limits on how many jobs may wait.
const PASSING: [&str; 15] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Transport endpoint",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "Zero Bytes were transmitted",
    "temporarily unable",
    "temporarily unavailable",
    "controller in standby mode",
    "Munge",
    "authentication credential",
    "MaxSubmit",
    "Required partition not available",
    "Required node not available",
];

/// Help for errors that report an invalid request, by a phrase of the error.
const HELP: [(&str, &str); 10] = [
    ("Invalid feature", "`sinfo -o %f` lists the features that `constraint` may name"),
    ("node configuration is not available", "`sinfo -o '%N %c %m %G %f'` lists what nodes have"),
    ("generic resource", "`sinfo -o %G` lists the resources that `gres` may name"),
    ("partition", "`sinfo -o %R` lists the partitions"),
    ("account", "`sacctmgr show associations user=$USER` lists the accounts"),
    ("qos", "`sacctmgr show associations user=$USER format=account,partition,qos` lists them"),
    ("QOS", "`sacctmgr show qos` lists the limits"),
    ("time limit", "lower the stage's `timeout` or the pool's `time_limit`"),
    ("node name", "`sinfo -o %N` lists the nodes"),
    ("unrecognized option", "check `extra` in the pool's options"),
];

/// Returns the error of a failed call: retryable if Slurm is unavailable or busy, else invalid.
pub(super) fn refusal(call: &SlurmCommand, output: &SlurmCommandOutput) -> Error {
    let words = stderr_message(&output.stderr);
    let message = if words.is_empty() {
        format!("`{}` failed without an error message", call.program)
    } else {
        format!("`{}`: {words}", call.program)
    };
    if PASSING.iter().any(|passing| output.stderr.contains(passing)) {
        return Error::retryable(message);
    }
    let help = HELP.iter().find(|(part, _)| output.stderr.contains(part)).map(|(_, help)| *help);
    Error::invalid(message).help(help.unwrap_or("check the pool's options under `with` and the stage's `resources`"))
}

/// Returns the lines of stderr without the prefixes of the tools, the last and most general first.
fn stderr_message(stderr: &str) -> String {
    let lines = stderr.lines().map(|line| {
        let line = line.trim();
        let line = line.split_once(": error: ").map_or(line, |(_, rest)| rest);
        let line = line.strip_prefix("sbatch: ").unwrap_or(line);
        line.strip_prefix("Batch job submission failed: ").unwrap_or(line)
    });
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("Try ")).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    fn refused(stderr: &str) -> Error {
        let output = SlurmCommandOutput { success: false, stdout: String::new(), stderr: stderr.into() };
        refusal(&SlurmCommand::new("sbatch", ["--parsable"]), &output)
    }

    /// The texts of 22.05, as they were recorded: a line of flags, then the output of `sbatch`.
    #[test]
    fn recorded_refusals_are_invalid_with_help() {
        let mut cases = 0;
        for case in include_str!("recorded/refusals.txt").split("-- ").skip(1) {
            let (flags, stderr) = case.split_once('\n').unwrap();
            let error = refused(stderr);
            assert_eq!(error.kind, ErrorKind::Invalid, "{flags}: {error}");
            assert!(error.help.is_some() && !error.message.contains("sbatch: error"), "{flags}: {error}");
            cases += 1;
        }
        assert_eq!(cases, 10);
        let error = refused("sbatch: error: Batch job submission failed: Invalid feature specification\n");
        let expected = "`sbatch`: Invalid feature specification; \
             `sinfo -o %f` lists the features that `constraint` may name";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn unreachable_controller_and_full_queue_are_retryable() {
        for stderr in [
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            "slurm_load_jobs error: Transport endpoint is not connected",
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates \
             accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed",
        ] {
            assert_eq!(refused(stderr).kind, ErrorKind::Retryable, "{stderr}");
        }
    }

    #[test]
    fn empty_stderr_is_reported() {
        assert!(refused("").message.contains("failed without an error message"));
        assert_eq!(refused("first\nsecond\n").message, "`sbatch`: second; first");
    }
}

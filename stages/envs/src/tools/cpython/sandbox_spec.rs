//! Builds the specification of the sandbox of a session's process.

use super::installation::Installation;
use super::sandbox::SandboxSpec;
use super::scratch::{MAX_FILE_BYTES, SessionScratch};
use crate::tools::ToolLimits;

/// Processor time in the life of a session, in calls of full length. The supervisor ends calls by the clock; this limit
/// ends programs that continue if their supervisor hangs.
const CALLS_OF_FULL_LENGTH: u64 = 100;
/// Processor time for the start of the interpreter.
const START_SECONDS: u64 = 30;
/// Environment variables common to all processes: no random hashes, no threads, no local time, no files written next to
/// modules.
const ENVIRONMENT: [(&str, &str); 14] = [
    ("COLUMNS", "80"),
    ("LANG", "C.UTF-8"),
    ("MALLOC_ARENA_MAX", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("MPLBACKEND", "agg"),
    ("NUMEXPR_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("PATH", "/usr/bin:/bin"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("PYTHONUTF8", "1"),
    ("RAYON_NUM_THREADS", "1"),
    ("TZ", "UTC"),
];

/// Returns the specification for an interpreter in the folder `scratch`. The environment is the same on every machine
/// except for the folder and the location of packages.
pub fn sandbox_spec(installation: &Installation, limits: &ToolLimits, scratch: &SessionScratch) -> SandboxSpec {
    let folder = scratch.path().display().to_string();
    let folders = ["HOME", "MPLCONFIGDIR", "TMPDIR"].map(|name| (name.to_string(), folder.clone()));
    let packages = match &installation.user_base {
        Some(base) => ("PYTHONUSERBASE".to_string(), base.clone()),
        None => ("PYTHONNOUSERSITE".to_string(), "1".to_string()),
    };
    let fixed = ENVIRONMENT.map(|(name, value)| (name.to_string(), value.to_string()));
    let search_paths = installation.search_paths.iter().cloned();
    SandboxSpec {
        executable: installation.executable.clone(),
        reads: installation.reads.clone(),
        executes: installation.executes.clone(),
        scratch: scratch.path().to_path_buf(),
        environment: fixed.into_iter().chain(folders).chain([packages]).chain(search_paths).collect(),
        cpu_seconds: limits.time_millis.div_ceil(1000) * CALLS_OF_FULL_LENGTH + START_SECONDS,
        file_bytes: MAX_FILE_BYTES,
    }
}

//! Defines and validates the options of pools with the executor `slurm`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trainyard_core::units::parse_duration;
use trainyard_core::{Error, Result};

/// Options of `sbatch` in addition to the resources of a stage. Omitted options take Slurm's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlurmOptions {
    /// Partition of the jobs, or several with commas: the first that can start a job gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Account that is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Quality of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Features that nodes must have, in Slurm's syntax: `h100&nvlink`. Stages select a pool by its `tags`; the
    /// constraint applies to every job of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// Generic resource of a GPU on this cluster, without a count: `gpu:h100`. A stage with two GPUs gets
    /// `--gres=gpu:h100:2`.
    pub gres: String,
    /// Time limit of every job, such as `12h`. Without it a stage with a `timeout` gets that and five minutes more, and
    /// a stage without one the partition's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<String>,
    /// Nodes that jobs must have, as Slurm writes them: `gpu[01-04]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelist: Option<String>,
    /// Nodes that jobs must not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// Lines of bash that run on the node before the attempt, such as `module load cuda`. A line that fails ends the
    /// job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setup: String,
    /// Whether an attempt that requests no GPUs sees none (`CUDA_VISIBLE_DEVICES` is empty), instead of all GPUs of its
    /// node where the site does not confine jobs to their devices. Flags under `extra` that request GPUs count as a
    /// request.
    pub hide_gpus: bool,
    /// Variables of the attempt's environment. They are written into the job's script, which other users may be able to
    /// read: no secrets. Jobs inherit the environment of the engine in any case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// More flags of `sbatch`, as they are: `--exclusive`, `--reservation=demo`. They come last and
    /// override the other options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// Whether nodes see the files of this machine under the same paths. If not, sources are uploaded to the store, the
    /// program must be installed on the nodes, and the output of Slurm stays there.
    pub shared_filesystem: bool,
    /// Folder for the output of jobs: messages of Slurm, and errors of a program that could not start. It must exist on
    /// the nodes. Default: `slurm` in the folder that `TRAINYARD_HOME` names or in `~/.cache/trainyard`; `/tmp` of the
    /// nodes if they share no files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_folder: Option<PathBuf>,
    /// Poll interval of the queue.
    pub poll: String,
}

impl Default for SlurmOptions {
    fn default() -> Self {
        Self {
            partition: None,
            account: None,
            qos: None,
            constraint: None,
            gres: "gpu".into(),
            time_limit: None,
            nodelist: None,
            exclude: None,
            setup: String::new(),
            hide_gpus: true,
            environment: BTreeMap::new(),
            extra: Vec::new(),
            shared_filesystem: true,
            log_folder: None,
            poll: "5s".into(),
        }
    }
}

/// Flags that the executor sets itself, or by which it finds its jobs: long form, short form.
const RESERVED_FLAGS: [(&str, &str); 12] = [
    ("--array", "-a"),
    ("--clusters", "-M"),
    ("--comment", ""),
    ("--error", "-e"),
    ("--job-name", "-J"),
    ("--nodes", "-N"),
    ("--output", "-o"),
    ("--parsable", ""),
    ("--requeue", ""),
    ("--test-only", ""),
    ("--wait", "-W"),
    ("--wrap", ""),
];

impl SlurmOptions {
    /// Checks the options. Errors: invalid, naming the option.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |option: &str, why: String| Error::invalid(format!("`{option}` of the executor `slurm`: {why}"));
        self.poll().map_err(|why| wrong("poll", why))?;
        self.limit().map_err(|why| wrong("time_limit", why))?;
        for flag in &self.extra {
            let name = flag.split('=').next().unwrap_or(flag);
            let short = |short: &str| !short.is_empty() && flag.starts_with(short) && !flag.starts_with("--");
            if let Some((long, _)) = RESERVED_FLAGS.iter().find(|(long, s)| abbreviates(name, long) || short(s)) {
                return Err(wrong("extra", format!("`{flag}` is reserved: the executor sets `{long}` itself")));
            }
            if !flag.starts_with('-') {
                return Err(wrong("extra", format!("`{flag}` is not a flag"))
                    .help("write a flag and its value as one entry: `--reservation=demo`"));
            }
        }
        if let Some(name) = self.environment.keys().find(|name| !is_variable(name)) {
            return Err(wrong("environment", format!("`{name}` is not a valid variable name"))
                .help("names are letters, digits and `_`, not a digit first"));
        }
        let folder = self.log_folder.as_deref().unwrap_or(Path::new("/"));
        if !folder.is_absolute() || folder.to_str().is_none_or(|path| path.contains('\\')) {
            let why = format!("`{}` must be an absolute path without `\\`", folder.display());
            return Err(wrong("log_folder", why));
        }
        Ok(())
    }
    /// Returns the poll interval of the queue.
    pub(super) fn poll(&self) -> Result<Duration, String> {
        positive_duration(&self.poll)
    }
    /// Returns the time limit of every job; `None` if the option is not set.
    pub(super) fn limit(&self) -> Result<Option<Duration>, String> {
        self.time_limit.as_deref().map(positive_duration).transpose()
    }
    /// Returns the folder of the output of jobs, on the nodes.
    pub(super) fn log_folder(&self) -> PathBuf {
        match &self.log_folder {
            Some(folder) => folder.clone(),
            None if !self.shared_filesystem => "/tmp".into(),
            None => {
                let named = std::env::var_os("TRAINYARD_HOME").filter(|p| Path::new(p).is_absolute());
                let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/trainyard"));
                named.map(PathBuf::from).or_else(home).map_or_else(|| "/tmp".into(), |home| home.join("slurm"))
            }
        }
    }
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("must be longer than zero".into()) } else { Ok(duration) }
}

/// Returns whether `sbatch` reads `name` as this long flag: it accepts unique prefixes.
fn abbreviates(name: &str, long: &str) -> bool {
    name.len() > 3 && long.starts_with(name) || name == long
}

fn is_variable(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(word) && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(options: serde_json::Value) -> Result<(), String> {
        let options: SlurmOptions = serde_json::from_value(options).map_err(|e| e.to_string())?;
        options.check().map_err(|e| e.to_string())
    }

    #[test]
    fn no_option_is_required() {
        assert_eq!(checked(json!({})), Ok(()));
        let text = serde_json::to_value(SlurmOptions::default()).unwrap();
        assert_eq!(text, json!({"gres": "gpu", "hide_gpus": true, "shared_filesystem": true, "poll": "5s"}));
    }

    #[test]
    fn typical_options_are_accepted() {
        let options = json!({
            "partition": "gpu,spot", "account": "lab", "qos": "long", "constraint": "h100&nvlink", "gres": "gpu:h100",
            "time_limit": "1d12h", "setup": "module load cuda\n", "environment": {"HF_HOME": "/scratch/hf"},
            "extra": ["--exclusive", "--reservation=demo", "-x", "--export=NIL", "--no-kill"],
            "log_folder": "/scratch/l",
            "shared_filesystem": false, "poll": "500ms"
        });
        assert_eq!(checked(options), Ok(()));
    }

    #[test]
    fn invalid_options_are_reported() {
        for (options, part) in [
            (json!({"partitions": "a"}), "unknown field `partitions`"),
            (json!({"poll": "5"}), "`poll` of the executor `slurm`: `5` is not a duration"),
            (json!({"poll": "0s"}), "longer than zero"),
            (json!({"time_limit": "0s"}), "longer than zero"),
            (json!({"time_limit": "12:00:00"}), "`time_limit`"),
            (json!({"extra": ["--comment=mine"]}), "`--comment=mine` is reserved"),
            (json!({"extra": ["--arr=1-3"]}), "sets `--array` itself"),
            (json!({"extra": ["-J", "name"]}), "sets `--job-name` itself"),
            (json!({"extra": ["-Jname"]}), "sets `--job-name` itself"),
            (json!({"extra": ["--requeue"]}), "sets `--requeue` itself"),
            (
                json!({"extra": ["--reservation", "demo"]}),
                "`demo` is not a flag; write a flag and its value as one entry",
            ),
            (json!({"environment": {"A B": "c"}}), "`A B` is not a valid variable name"),
            (json!({"environment": {"1A": "c"}}), "`1A`"),
            (json!({"log_folder": "logs"}), "`logs` must be an absolute path"),
        ] {
            let error = checked(options.clone()).unwrap_err();
            assert!(error.contains(part), "{options}: {error}");
        }
    }
}

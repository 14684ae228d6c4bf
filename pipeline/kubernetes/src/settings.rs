//! Validates the options of a pool. Detectable settings that Kubernetes would refuse, or accept and never run, are
//! reported before a run starts.

use crate::names::is_label_value;
use crate::options::{KubernetesOptions, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use trainyard_core::units::{parse_duration, parse_size};
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::{ExecutorContext, Launcher};

/// Validated options.
#[derive(Debug, Clone)]
pub(crate) struct KubernetesSettings {
    /// Options as in the site file.
    pub options: KubernetesOptions,
    /// Command of an attempt, without its URL as the last argument.
    pub command: Vec<String>,
    /// Environment variables of every attempt of this program; those of the options override them.
    pub environment: BTreeMap<String, String>,
    /// Seconds that a finished Job is kept.
    pub ttl_seconds: i32,
}

impl KubernetesSettings {
    /// Validates the options of a pool. Errors: invalid, with all problems.
    pub fn new(context: &ExecutorContext, options: KubernetesOptions) -> Result<Self> {
        let ExecutorContext { pool, launcher, .. } = context;
        let mut problems = Vec::new();
        if options.image.trim().is_empty() {
            problems.push("`image` is empty".to_string());
        }
        if options.program.as_ref().is_some_and(|program| program.trim().is_empty()) {
            problems.push("`program` is empty".to_string());
        }
        if options.namespace.as_ref().is_some_and(|name| !is_label(name)) {
            problems.push(format!("`namespace` is not a valid Kubernetes name: use {LABEL}"));
        }
        if options.queue.as_ref().is_some_and(|name| !is_label_value(name)) {
            problems.push("`queue` is not a valid queue name".into());
        }
        let labels = options.labels.iter().filter(|(_, value)| !value.is_empty() && !is_label_value(value));
        problems.extend(labels.map(|(name, value)| format!("the label `{name}` cannot have the value `{value}`")));
        let ttl_seconds = match parse_duration(&options.ttl).map(|ttl| i32::try_from(ttl.as_secs())) {
            Ok(Ok(seconds)) => seconds,
            Ok(Err(_)) => {
                problems.push("`ttl` is longer than 68 years".into());
                0
            }
            Err(e) => {
                problems.push(format!("`ttl`: {e}"));
                0
            }
        };
        if options.tolerations.iter().any(|t| t.value.is_some() && t.key.is_none()) {
            problems.push("a toleration has a `value` and no `key`".into());
        }
        let mut names = BTreeSet::new();
        for volume in &options.volumes {
            problems.extend(volume_problems(volume));
            if !names.insert(&volume.name) {
                problems.push(format!("two volumes are named `{}`", volume.name));
            }
        }
        if problems.is_empty() {
            let (command, environment) = (command(launcher, &options), environment(launcher));
            return Ok(Self { options, command, environment, ttl_seconds });
        }
        Err(Error::invalid(format!("the pool `{pool}`: {}", problems.join("; ")))
            .help("`trainyard stages executors/kubernetes` lists its options"))
    }
    /// Returns whether Pods see this path of this machine.
    pub fn mounts(&self, path: &std::path::Path) -> bool {
        self.options.shared_filesystem && self.options.volumes.iter().any(|volume| path.starts_with(&volume.mount))
    }
}

/// Builds the command that starts an attempt in the image. A pool without `program` starts this program, which is on
/// `PATH` in the image.
fn command(launcher: &Launcher, options: &KubernetesOptions) -> Vec<String> {
    let from_options = options.program.clone();
    let pool_program = || match std::env::current_exe() {
        Ok(current) if current == launcher.program => PROGRAM.to_string(),
        _ => launcher.program.display().to_string(),
    };
    let arguments = launcher.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    [from_options.unwrap_or_else(pool_program)].into_iter().chain(arguments).collect()
}

fn environment(launcher: &Launcher) -> BTreeMap<String, String> {
    let text = |(name, value): &(OsString, OsString)| Some((name.to_str()?.to_string(), value.to_str()?.to_string()));
    launcher.env.iter().filter_map(text).collect()
}

const PROGRAM: &str = "trainyard";
const LABEL: &str = "at most 63 of `a-z`, `0-9` and `-`, without `-` at either end";

/// Returns whether a text is an RFC 1123 label, as required for names of namespaces and volumes.
fn is_label(text: &str) -> bool {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(good) && !text.starts_with('-') && !text.ends_with('-')
}

fn volume_problems(volume: &Volume) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |text: String| problems.push(format!("the volume `{}`: {text}", volume.name));
    if !is_label(&volume.name) {
        problem(format!("its `name` is not a valid Kubernetes name: use {LABEL}"));
    }
    if !volume.mount.starts_with('/') || volume.mount.contains(':') {
        problem("`mount` must be an absolute path without `:`".into());
    }
    let sources = [&volume.claim, &volume.secret, &volume.config_map];
    let count = sources.iter().filter(|s| s.is_some()).count() + usize::from(volume.empty_dir.is_some());
    if count != 1 {
        problem(format!("it has {count} sources; set exactly one of `claim`, `secret`, `config_map` and `empty_dir`"));
    }
    if let Some(Err(e)) = volume.empty_dir.as_ref().and_then(|dir| dir.size.as_deref()).map(parse_size) {
        problem(format!("`size`: {e}"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(options: serde_json::Value) -> Result<KubernetesSettings> {
        settings_of(std::env::current_exe().unwrap(), options)
    }

    fn settings_of(program: std::path::PathBuf, options: serde_json::Value) -> Result<KubernetesSettings> {
        let launcher = Launcher { env: vec![("LOG".into(), "debug".into())], ..Launcher::new(program) };
        let context = ExecutorContext { pool: "cluster".into(), launcher, slots: None };
        KubernetesSettings::new(&context, serde_json::from_value(options).unwrap())
    }

    #[test]
    fn image_is_the_only_required_option() {
        let settings = settings(json!({"image": "registry/trainyard:1"})).unwrap();
        assert_eq!(settings.ttl_seconds, 86_400);
        assert_eq!(settings.command, ["trainyard", "attempt"]);
        assert_eq!(settings.environment["LOG"], "debug");
        assert_eq!(settings.options.gpu_resource, "nvidia.com/gpu");
        assert!(!settings.mounts("/data/x".as_ref()));
    }

    #[test]
    fn program_comes_from_options_or_pool() {
        let from_pool = settings_of("/pool/trainyard".into(), json!({"image": "i"})).unwrap();
        assert_eq!(from_pool.command, ["/pool/trainyard", "attempt"]);
        let from_options =
            settings_of("/pool/trainyard".into(), json!({"image": "i", "program": "/opt/trainyard"})).unwrap();
        assert_eq!(from_options.command, ["/opt/trainyard", "attempt"]);
        assert!(settings(json!({"image": "i", "program": ""})).unwrap_err().message.contains("`program` is empty"));
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let error = settings(json!({
            "image": " ", "namespace": "Team A", "ttl": "90", "queue": "-",
            "tolerations": [{"value": "gpu"}], "labels": {"team": "a/b"},
            "volumes": [
                {"name": "a", "mount": "data", "claim": "c", "secret": "s"},
                {"name": "a", "mount": "/x"},
                {"name": "Shm", "mount": "/dev/shm", "empty_dir": {"size": "8 bananas"}},
            ],
        }))
        .unwrap_err()
        .message;
        for part in [
            "the pool `cluster`: `image` is empty",
            "`namespace` is not",
            "`queue` is not",
            "the label `team` cannot have the value `a/b`",
            "a toleration has a `value` and no `key`",
            "`90` is not a duration",
            "`a`: `mount` must be an absolute path",
            "`a`: it has 2 sources",
            "`a`: it has 0 sources",
            "two volumes are named `a`",
            "`Shm`: its `name`",
            "`8 bananas` is not a size",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        let read = |value| serde_json::from_value::<KubernetesOptions>(value).unwrap_err().to_string();
        assert!(read(json!({"image": "i", "gpu": 1})).contains("unknown field `gpu`"));
        assert!(read(json!({})).contains("missing field `image`"));
        let hostile = json!({"image": "i", "volumes": [{"name": "a", "mount": "/a", "host_path": "/"}]});
        assert!(read(hostile).contains("unknown field `host_path`"));
    }

    #[test]
    fn only_mounted_paths_are_visible() {
        let volumes = json!([{"name": "data", "mount": "/data", "claim": "data"}]);
        let shared = settings(json!({"image": "i", "shared_filesystem": true, "volumes": volumes})).unwrap();
        assert!(shared.mounts("/data/store".as_ref()));
        assert!(!shared.mounts("/database".as_ref()));
        let unshared = settings(json!({"image": "i", "volumes": volumes})).unwrap();
        assert!(!unshared.mounts("/data/store".as_ref()));
    }
}

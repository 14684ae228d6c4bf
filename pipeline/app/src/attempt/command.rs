//! Runs a `run:` stage, whose config (documented in `trainyard_spec::run_stage`) becomes one process.
//!
//! Words that name ports are replaced by local paths. The command writes metrics as JSON Lines to the file at
//! `$TRAINYARD_METRICS`, where it also announces checkpoints.

use super::checkpoint_line::is_checkpoint;
use super::command_checkpoints::{CheckpointFollower, CommandCheckpoints, RESUME_VARIABLE};
use super::process_tree::HostProcessTree;
use super::{child, redaction, secrets};
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trainyard_api::StageContext;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::error::{Context as _, io_error};
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::{BY_INDEX, GPU_ORDER, GPUS, MARK, format_gpus};
use trainyard_store::credentials;

/// Help text for a malformed line of metrics.
const METRIC: &str = "write lines like {\"name\": \"accuracy\", \"value\": 0.5}";

/// Starts the command, waits for it while its checkpoints are stored, and reads its metrics into the context. `mark` is
/// in the environment of the command and all its descendants. `process_tree` is that of the host if one process runs
/// many attempts.
pub fn run(
    spec: &AttemptSpec,
    context: &mut StageContext,
    checkpoints: &CommandCheckpoints,
    (url, mark): (&str, &str),
    process_tree: Option<&HostProcessTree>,
) -> Result<()> {
    let metrics = context.scratch.join("metrics.jsonl");
    let mut command = command(spec, context, url)?;
    command.env("TRAINYARD_METRICS", &metrics).env(MARK, mark);
    if process_tree.is_some() {
        command.process_group(0).env(GPU_ORDER, BY_INDEX).env(GPUS, format_gpus(&spec.resources.gpus));
    }
    let child = command.spawn().map_err(|e| {
        Error::invalid(format!("stage `{}` could not start {:?}: {e}", spec.stage, command.get_program()))
    })?;
    let mut follower = CheckpointFollower::new(context, &metrics, checkpoints);
    let mut watch = || follower.as_mut().map_or(Ok(()), CheckpointFollower::poll);
    let ended = child::RunningCommand { child, mark, process_tree }.wait(spec, context, &mut watch);
    let stored = follower.map_or(Ok(()), CheckpointFollower::finish);
    // A command that failed may have left half a line: its own error says more.
    if let (Err(_), Err(error)) = (&ended, &stored) {
        context.warn(error.to_string());
    }
    let peak = ended?;
    stored?;
    context.measure("peak_memory_bytes", peak);
    read_metrics(&metrics, context)
}

fn command(spec: &AttemptSpec, context: &StageContext, url: &str) -> Result<Command> {
    let config = &spec.config;
    let mut command = match (config.get("argv").and_then(Value::as_array), config.get("shell").and_then(Value::as_str))
    {
        (Some(words), _) => {
            let words: Vec<String> = words.iter().map(|w| word(w, context)).collect::<Result<_>>()?;
            let (program, arguments) = words
                .split_first()
                .ok_or_else(|| Error::invalid(format!("stage `{}` runs an empty command", spec.stage)))?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        (None, Some(script)) => {
            let mut command = Command::new("sh");
            command.args(["-eu", "-c", script]);
            command
        }
        (None, None) => {
            return Err(Error::bug(format!("stage `{}` of kind run has neither argv nor shell", spec.stage)));
        }
    };
    // Store credentials are for the attempt only. A command that needs them names them under `secrets`.
    for name in credentials(url) {
        command.env_remove(name);
    }
    for name in secrets::hidden_variables(&spec.withheld, &spec.secrets) {
        command.env_remove(name);
    }
    // The attempt may itself be started by a command that was resumed.
    command.env_remove(RESUME_VARIABLE);
    // Not every executor sets these variables for the attempt itself.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        command.env(name, context.cpus.to_string());
    }
    command.envs(&context.env).envs(context.secrets.iter().map(|(name, value)| (name, value.reveal())));
    for (name, value) in config.get("env").and_then(Value::as_object).into_iter().flatten() {
        command.env(name, word(value, context)?);
    }
    link_files(config, &context.scratch)?;
    command.current_dir(&context.scratch).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Returns the text of a word, in which `$input` and `$output` are replaced by local paths and `$text` by the joined
/// pieces.
fn word(value: &Value, context: &StageContext) -> Result<String> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    if let Some(pieces) = value.get("$text").and_then(Value::as_array) {
        return pieces.iter().map(|p| word(p, context)).collect();
    }
    if let Some(port) = value.get("$output").and_then(Value::as_str) {
        return Ok(context.output(port)?.display().to_string());
    }
    if let Some(port) = value.get("$input").and_then(Value::as_str) {
        return input_path(port, value.get("index").and_then(Value::as_u64), context).map(|p| p.display().to_string());
    }
    Err(Error::bug(format!("unknown word of a command: {value}")))
}

/// Returns the folder of an artifact. For a port with several artifacts and no index, returns the folder that contains
/// `0`, `1`, ….
fn input_path(port: &str, index: Option<u64>, context: &StageContext) -> Result<PathBuf> {
    let artifacts = context.many(port);
    match (index, artifacts) {
        (Some(i), _) => artifacts
            .get(i as usize)
            .map(|a| a.folder.clone())
            .ok_or_else(|| Error::invalid(format!("input `{port}` has no artifact number {i}"))),
        (None, [one]) => Ok(one.folder.clone()),
        (None, [first, ..]) => Ok(first.folder.parent().unwrap_or(&first.folder).to_path_buf()),
        (None, []) => Err(Error::invalid(format!("input `{port}` is missing"))),
    }
}

fn link_files(config: &Value, folder: &Path) -> Result<()> {
    for (name, target) in config.get("files").and_then(Value::as_object).into_iter().flatten() {
        let place = folder.join(name);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(|e| io_error(parent, &e))?;
        }
        let target = Path::new(target.as_str().unwrap_or_default());
        std::os::unix::fs::symlink(target, &place).map_err(|e| io_error(&place, &e))?;
    }
    Ok(())
}

fn read_metrics(path: &Path, context: &mut StageContext) -> Result<()> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        // A command without metrics writes no file.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io_error(path, &e)),
    };
    let text =
        String::from_utf8(bytes).map_err(|_| Error::data("$TRAINYARD_METRICS is not UTF-8 text").help(METRIC))?;
    let text = redaction::text(&text);
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        if let Some((name, value)) = metric(line).at(format!("$TRAINYARD_METRICS line {}", number + 1))? {
            context.metric(name, value);
        }
    }
    Ok(())
}

/// Parses a metric. Returns `None` for a line that announces a checkpoint.
fn metric(line: &str) -> Result<Option<(String, f64)>> {
    let fail = || Error::data(format!("`{line}` is not a metric")).help(METRIC);
    let parsed: Value = serde_json::from_str(line).map_err(|_| fail())?;
    match (parsed.get("name").and_then(Value::as_str), parsed.get("value").and_then(Value::as_f64)) {
        (Some(name), Some(value)) => Ok(Some((name.to_string(), value))),
        _ if parsed.as_object().is_some_and(is_checkpoint) => Ok(None),
        _ => Err(fail()),
    }
}

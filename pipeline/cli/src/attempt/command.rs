//! Runs a `run:` stage: the config of kind `run` (documented in `trainyard_spec::run_stage`) becomes one process.
//!
//! Words that name ports become local paths; what the process prints is the stage's log; metrics are read from the JSON Lines file
//! at `$TRAINYARD_METRICS`. Refuses: success of a process that ended with another exit code than 0.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::{Reporter, StageContext};
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_core::error::{Context as _, io_error};
use trainyard_core::{Error, Result};

/// How often a running process is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// What a process gets between the wish to stop and its end.
const GRACE: Duration = Duration::from_secs(5);

/// Starts the process, waits for it, reads its metrics.
pub fn run(spec: &AttemptSpec, context: &mut StageContext) -> Result<()> {
    let metrics = context.scratch.join("metrics.jsonl");
    let mut command = command(spec, context)?;
    command.env("TRAINYARD_METRICS", &metrics);
    let child =
        command.spawn().map_err(|e| Error::invalid(format!("stage `{}` could not start {:?}: {e}", spec.stage, command.get_program())))?;
    wait(child, spec, context)?;
    read_metrics(&metrics, context)
}

fn command(spec: &AttemptSpec, context: &StageContext) -> Result<Command> {
    let config = &spec.config;
    let mut command = match (config.get("argv").and_then(Value::as_array), config.get("shell").and_then(Value::as_str)) {
        (Some(words), _) => {
            let words: Vec<String> = words.iter().map(|w| word(w, context)).collect::<Result<_>>()?;
            let (program, arguments) =
                words.split_first().ok_or_else(|| Error::invalid(format!("stage `{}` runs an empty command", spec.stage)))?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        (None, Some(script)) => {
            let mut command = Command::new("sh");
            command.args(["-eu", "-c", script]);
            command
        }
        (None, None) => return Err(Error::bug(format!("stage `{}` of kind run has neither argv nor shell", spec.stage))),
    };
    command.envs(&context.env).envs(secrets(spec)?);
    for (name, value) in config.get("env").and_then(Value::as_object).into_iter().flatten() {
        command.env(name, word(value, context)?);
    }
    link_files(config, &context.scratch)?;
    command.current_dir(&context.scratch).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// A string, or a local path in place of `$input`, `$output`, `$text`.
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
    Err(Error::bug(format!("this word of a command is not known: {value}")))
}

/// The artifact's folder; for a list of artifacts the folder that holds `0`, `1`, ….
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

/// Values of the declared secrets, from where the site file says.
fn secrets(spec: &AttemptSpec) -> Result<BTreeMap<String, String>> {
    let one = |(name, provider): (&String, &String)| {
        let variable = provider
            .strip_prefix("env:")
            .ok_or_else(|| Error::invalid(format!("secret `{name}`: no provider `{provider}`")).help("use `env:VARIABLE`"))?;
        let value = std::env::var(variable).map_err(|_| {
            Error::invalid(format!("secret `{name}`: the variable {variable} is not set")).help("set it where the attempt runs")
        })?;
        Ok((name.clone(), value))
    };
    spec.secrets.iter().map(one).collect()
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

fn wait(mut child: Child, spec: &AttemptSpec, context: &StageContext) -> Result<()> {
    let readers = [
        child.stdout.take().map(|pipe| follow(pipe, context.reporter.clone())),
        child.stderr.take().map(|pipe| follow(pipe, context.reporter.clone())),
    ];
    let (mut asked, mut waited) = (false, Duration::ZERO);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| Error::lost(format!("stage `{}`: {e}", spec.stage)))? {
            break status;
        }
        if context.cancel.is_cancelled() {
            if !asked {
                ask_to_stop(&child);
                asked = true;
            }
            waited += LOOK;
            if waited > GRACE {
                // It may have ended by itself in between.
                let _ = child.kill();
            }
        }
        std::thread::sleep(LOOK);
    };
    context.stop_if_cancelled()?;
    for reader in readers.into_iter().flatten() {
        // A grandchild may hold the pipe open; what was written so far is enough.
        if reader.is_finished() || status.success() {
            drop(reader.join());
        }
    }
    if status.success() {
        return Ok(());
    }
    use std::os::unix::process::ExitStatusExt as _;
    let how = status.code().map_or_else(|| format!("signal {}", status.signal().unwrap_or(0)), |c| format!("exit code {c}"));
    Err(Error::data(format!("the command of stage `{}` ended with {how}", spec.stage))
        .help(format!("`trainyard logs {} {}` shows what it wrote", spec.run, spec.stage)))
}

fn ask_to_stop(child: &Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have ended in between.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Reports every line of a pipe as log; what commands print on stderr is mostly no error.
fn follow(pipe: impl Read + Send + 'static, reporter: Arc<dyn Reporter>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            reporter.report(AttemptMessage::Log { level: LogLevel::Info, text });
            line.clear();
        }
    })
}

fn read_metrics(path: &Path, context: &mut StageContext) -> Result<()> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let (name, value) = metric(line).at(format!("$TRAINYARD_METRICS line {}", number + 1))?;
        context.metric(name, value);
    }
    Ok(())
}

fn metric(line: &str) -> Result<(String, f64)> {
    let fail = || Error::data(format!("`{line}` is no metric")).help("write lines like {\"name\": \"accuracy\", \"value\": 0.5}");
    let parsed: Value = serde_json::from_str(line).map_err(|_| fail())?;
    match (parsed.get("name").and_then(Value::as_str), parsed.get("value").and_then(Value::as_f64)) {
        (Some(name), Some(value)) => Ok((name.to_string(), value)),
        _ => Err(fail()),
    }
}

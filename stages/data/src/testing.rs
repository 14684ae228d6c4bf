//! Provides helpers for the tests of this crate: the folder of real data, and a tool that times out or is lost on
//! request.

use crate::DataParts;
use crate::synthesize::SynthesizeStage;
use serde_json::{Value, json};
use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_core::Result;
use trainyard_envs::environments::dialogue::Dialogue;
use trainyard_envs::environments::{DialogueEnvironment, DialogueOptions, EnvironmentSetup};
use trainyard_envs::{
    Environment, Episode, PendingToolResult, ToolHost, ToolResult, ToolSession, ToolSpec, environments, verifiers,
};
use trainyard_tables::Problem;

/// Returns the parts of this build.
pub fn parts() -> Arc<DataParts> {
    Arc::new(DataParts::standard(Arc::new(trainyard_envs::EnvironmentParts::standard())))
}

/// Returns the stage `data/synthesize` of this build.
pub fn synthesize() -> SynthesizeStage {
    let parts = parts();
    SynthesizeStage { methods: parts.synthesize.clone(), envs: parts.envs.clone() }
}

/// Creates an environment of this build with a separate tool host.
pub fn environment(options: &Value, cpus: usize) -> Result<Box<dyn Environment>> {
    environments::family().build(options, &ToolHost::new(cpus))
}

/// Variable with the folder of real data; see CONTRIBUTING.md for its contents.
const FOLDER: &str = "TRAINYARD_TEST_DATA";

/// Returns a file or folder of real data, or `None` on a machine without them; the test then reports that it is
/// skipped.
#[track_caller]
pub fn real(path: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os(FOLDER) else {
        skipped(&format!("{FOLDER} names no folder of real data"));
        return None;
    };
    let found = PathBuf::from(folder).join("data").join(path);
    assert!(found.exists(), "{FOLDER} names a folder without {}", found.display());
    Some(found)
}

/// Reports a skipped test past the harness, which hides the output of passing tests.
#[track_caller]
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {}: {reason}", Location::caller());
}

/// Returns math problems with a tool that echoes its text, except that `forever` times out and `gone` is lost.
pub fn echo_environment() -> Box<dyn Environment> {
    let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let tool = ToolSpec { name: "echo".into(), description: String::new(), parameters };
    let options = DialogueOptions { tools: Vec::new(), ..DialogueOptions::default() };
    Box::new(EchoEnvironment(
        Dialogue::with_tools(options, &EnvironmentSetup::standard(1), &[tool], verifiers::final_answer).unwrap(),
    ))
}

struct EchoEnvironment(Arc<Dialogue>);

impl DialogueEnvironment for EchoEnvironment {
    const KIND: &'static str = "math-problems";
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.0
    }
    fn open(&self, _: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.0.start_with(vec![Box::new(Echo)], seed)
    }
}

struct Echo;

impl ToolSession for Echo {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        PendingToolResult::ready(match arguments["text"].as_str().unwrap() {
            "forever" => ToolResult::timed_out("TimeoutError"),
            "gone" => ToolResult::infrastructure("error: the tool was lost"),
            text => ToolResult::ok(text),
        })
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self))
    }
}

//! Starts the program of an episode with its problem and the address of the model.

use crate::options::HarnessOptions;
use serde_json::{Value, json};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_envs::programs::ProblemItem;
use trainyard_process::{OneShotFolder, OneShotProgram, ProgramLog};
use trainyard_tables::Problem;

/// Name of the problem's file in the program's folder.
const PROBLEM_FILE: &str = "problem.json";
/// Maximum bytes of a variable. Longer questions are only in the file.
const MAX_VARIABLE_BYTES: usize = 64 << 10;

/// Copies the files of the program into a new folder, writes the problem, and starts the program. `url` is the address
/// of the server with the path of the episode; `key` is the API key of the program.
///
/// Errors: invalid (a file of the program has the name of the problem's file), and those of [`OneShotFolder::create`]
/// and [`OneShotFolder::start`].
pub fn start(
    options: &HarnessOptions,
    problem: &Problem,
    seed: u64,
    url: &str,
    key: &str,
    log: ProgramLog,
) -> Result<OneShotProgram> {
    let folder = OneShotFolder::create(&options.command, &options.files)?;
    let file = folder.path().join(PROBLEM_FILE);
    if file.exists() {
        return Err(Error::invalid(format!(
            "the program has a file `{PROBLEM_FILE}`, which is the name of the file of the problem"
        ))
        .help("rename the file of the program"));
    }
    let json = problem_json(options, problem, seed).to_string();
    std::fs::write(&file, json).map_err(|e| io_error(&file, &e))?;
    folder.start(&options.env, &variables(problem, seed, &file, url, key), log)
}

/// Returns a problem as JSON for the program, without its answer unless `show_answer` is set.
fn problem_json(options: &HarnessOptions, problem: &Problem, seed: u64) -> Value {
    let mut body = serde_json::to_value(ProblemItem::new(problem)).unwrap_or_default();
    if let Some(map) = body.as_object_mut() {
        if !options.show_answer {
            ["answer", "reference", "verifier"].iter().for_each(|key| drop(map.remove(*key)));
        }
        map.insert("seed".to_string(), json!(seed));
        if !options.options.is_null() {
            map.insert("options".to_string(), options.options.clone());
        }
    }
    body
}

fn variables(problem: &Problem, seed: u64, file: &Path, url: &str, key: &str) -> Vec<(&'static str, String)> {
    let question = problem.messages.iter().rfind(|m| m.role == "user").map_or("", |m| m.content.as_str());
    let mut list = vec![
        ("TRAINYARD_PROBLEM", file.display().to_string()),
        ("TRAINYARD_SEED", seed.to_string()),
        ("TRAINYARD_MODEL", "policy".to_string()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENAI_API_BASE", format!("{url}/v1")),
        ("OPENAI_API_KEY", key.to_string()),
        ("ANTHROPIC_BASE_URL", url.to_string()),
        ("ANTHROPIC_API_KEY", key.to_string()),
        // Disables telemetry of the packages.
        ("OPENAI_AGENTS_DISABLE_TRACING", "1".to_string()),
        ("LANGSMITH_TRACING", "false".to_string()),
        ("NO_PROXY", "127.0.0.1".to_string()),
        ("no_proxy", "127.0.0.1".to_string()),
    ];
    if question.len() <= MAX_VARIABLE_BYTES && !question.contains('\0') {
        list.push(("TRAINYARD_QUESTION", question.to_string()));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    #[test]
    fn answer_is_written_only_with_show_answer() {
        let problem = Problem {
            id: "p".into(),
            messages: vec![Message::new("user", "2+2?")],
            answer: "4".into(),
            ..Problem::default()
        };
        let hidden = problem_json(&HarnessOptions::default(), &problem, 7);
        assert_eq!(
            (&hidden["id"], &hidden["prompt"][0]["content"], &hidden["seed"]),
            (&json!("p"), &json!("2+2?"), &json!(7))
        );
        assert!(hidden.get("answer").is_none() && hidden.get("verifier").is_none());
        let options = HarnessOptions { show_answer: true, options: json!({"a": 1}), ..HarnessOptions::default() };
        let shown = problem_json(&options, &problem, 7);
        assert_eq!((&shown["answer"], &shown["options"]["a"]), (&json!("4"), &json!(1)));
    }
}

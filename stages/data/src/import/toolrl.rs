//! Implements the format `toolrl`: function calling with gold calls in ToolRL's form (arXiv 2504.13958), for
//! environment `function-calling`.
//!
//! Rows have verl's columns (`prompt`, and `reward_model.ground_truth` in ToolRL's markup; Parquet, `rlla_4k`), or
//! `system`, `user` and `answer`, a list of `{name, parameters}` (JSON; API-Bank, arXiv 2304.08244). The level is the
//! number of gold calls, at least 1. A ground truth that is only text requires no call.

use super::chat::text_or_messages;
use super::format::{ImportContext, ImportFormat, RowConverter, is_text, missing, names, sorted, text_column};
use crate::identity::problem_id;
use serde_json::{Map, Value, json};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_envs::{ToolCall, formats};
use trainyard_tables::{Message, Problem};

/// Environment of the problems, unless the options name another one.
const ENVIRONMENT: &str = "function-calling";

/// Fills `problems`.
pub struct ToolRlImport;

impl ImportFormat for ToolRlImport {
    fn name(&self) -> &'static str {
        "toolrl"
    }
    fn summary(&self) -> &'static str {
        "problems of ToolRL and API-Bank with gold calls"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn file_name(&self, split: &str) -> Option<String> {
        Some(format!("rlla_4k_{split}.parquet"))
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        let truth = columns.get("reward_model").and_then(|model| model.get("ground_truth"));
        let bank = ["system", "user"].iter().all(|column| is_text(columns, column));
        is_marked(truth) || (bank && columns.get("answer").is_some_and(Value::is_array))
    }
    fn columns(&self) -> &'static [&'static str] {
        &["ability", "answer", "data_source", "extra_info", "prompt", "reward_model", "system", "user"]
    }
    fn environment(&self, _: &Map<String, Value>) -> Option<&'static str> {
        Some(ENVIRONMENT)
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| Ok(problem(&row.columns, &row.place, reading)?.into())))
    }
}

/// Returns whether a ground truth is in ToolRL's markup.
pub fn is_marked(truth: Option<&Value>) -> bool {
    let marked = |text: &str| text.contains("<tool_call>") || text.contains("<response>");
    truth.and_then(Value::as_str).is_some_and(marked)
}

fn problem(row: &Map<String, Value>, place: &str, reading: &ImportContext) -> Result<Problem> {
    let nested = |outer: &str, inner: &str| row.get(outer).and_then(|v| v.get(inner));
    let (messages, gold, reference) = if let Some(prompt) = row.get("prompt") {
        let truth = nested("reward_model", "ground_truth").and_then(Value::as_str).ok_or_else(|| {
            Error::data(format!("missing text `reward_model.ground_truth`; the columns are: {}", names(row)))
        })?;
        (text_or_messages(prompt, "user")?, calls_in(truth)?, truth.to_string())
    } else {
        let messages =
            vec![Message::new("system", text_column(row, "system")?), Message::new("user", text_column(row, "user")?)];
        let gold = calls_of(row.get("answer").ok_or_else(|| missing(row, "column `answer`"))?)?;
        let reference = gold.iter().map(render).collect::<Result<Vec<_>>>()?.join("\n");
        (messages, gold, reference)
    };
    let calls = Value::Array(
        gold.iter().map(|call| json!({"arguments": sorted(&call.arguments), "name": call.name})).collect(),
    )
    .to_string();
    let mut problem = Problem {
        messages,
        verifier: format!(r#"{{"gold":{calls},"kind":"calls"}}"#),
        answer: calls,
        environment: reading.environment_or(ENVIRONMENT),
        level: gold.len().max(1) as u32,
        source: reading.name.clone(),
        split: nested("extra_info", "split").and_then(Value::as_str).unwrap_or(&reading.split).to_string(),
        reference: Some(reference),
        ..Problem::default()
    };
    // One question occurs with different tools, so the id includes the position in the file.
    let index = nested("extra_info", "index").and_then(Value::as_u64);
    let place = index.map_or_else(|| place.to_string(), |index| index.to_string());
    problem.id = format!("{}-{place}", problem_id(&reading.name, problem.question()));
    problem.canonical = crate::text::normal(problem.question());
    Ok(problem)
}

/// Returns the calls in a text with ToolRL's markup.
fn calls_in(text: &str) -> Result<Vec<ToolCall>> {
    let turn = formats::registry::build("toolrl", &[])?.parse(text);
    turn.calls
        .into_iter()
        .collect::<std::result::Result<_, String>>()
        .map_err(|e| Error::data(format!("invalid ground truth: {e}")))
}

/// Returns the calls in a list of `{name, parameters}`.
fn calls_of(list: &Value) -> Result<Vec<ToolCall>> {
    let call = |value: &Value| {
        let name = value.get("name").and_then(Value::as_str)?;
        let arguments = value.get("parameters").filter(|p| p.is_object())?;
        Some(ToolCall { name: name.to_string(), arguments: sorted(arguments) })
    };
    let calls = list.as_array().and_then(|list| list.iter().map(call).collect::<Option<Vec<ToolCall>>>());
    calls.ok_or_else(|| Error::data("`answer` must be a list of calls, each with a `name` and an object `parameters`"))
}

fn render(call: &ToolCall) -> Result<String> {
    Ok(formats::registry::build("toolrl", &[])?.render(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::read_file;
    use crate::testing::real;
    use std::collections::BTreeMap;

    fn read(text: &str) -> Result<Vec<Problem>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.json");
        std::fs::write(&file, text).unwrap();
        let reading = ImportContext { name: "bank".into(), split: "test".into(), ..ImportContext::default() };
        Ok(read_file("toolrl", &file, &reading)?.problems)
    }

    #[test]
    fn both_layouts_give_gold_calls() {
        let call = r#"{"name": "f", "parameters": {"y": 2, "x": "1"}}"#;
        let verl = json!([{
            "prompt": [{"role": "system", "content": "tools"}, {"role": "user", "content": "q"}],
            "reward_model": {"ground_truth": format!("<think> a </think>\n<tool_call>\n{call}\n{{\"name\": \"g\", \
             \"parameters\": {{}}}}\n</tool_call>")},
            "extra_info": {"index": 7, "split": "dev"},
        }]);
        let two = read(&verl.to_string()).unwrap().remove(0);
        let gold = r#"[{"arguments":{"x":"1","y":2},"name":"f"},{"arguments":{},"name":"g"}]"#;
        assert_eq!((two.answer.as_str(), two.level, two.split.as_str()), (gold, 2, "dev"));
        assert_eq!(two.verifier, format!(r#"{{"gold":{gold},"kind":"calls"}}"#));
        assert!(two.id.starts_with("bank-") && two.id.ends_with("-7"));
        let bank = read(&format!(r#"[{{"system": "tools", "user": "q", "answer": [{call}], "other": {{"id": 0}}}}]"#))
            .unwrap()
            .remove(0);
        assert_eq!((bank.level, bank.split.as_str(), bank.environment.as_str()), (1, "test", "function-calling"));
        assert_eq!(bank.messages, two.messages);
        assert_eq!(
            bank.reference.unwrap(),
            "<tool_call>\n{\"name\": \"f\", \"parameters\": {\"x\":\"1\",\"y\":2}}\n</tool_call>"
        );
    }

    #[test]
    fn text_answers_require_no_call_and_invalid_rows_are_reported() {
        let row = |truth: &str| json!({"prompt": "q", "reward_model": {"ground_truth": truth}}).to_string();
        let words = read(&row("<think> a </think>\n<response> Which one? </response>")).unwrap().remove(0);
        assert_eq!((words.answer.as_str(), words.level), ("[]", 1));
        for (bad, word) in [
            (row("<tool_call>\n{\"name\"\n</tool_call>"), "no JSON"),
            (json!({"prompt": "q"}).to_string(), "ground_truth"),
            (json!({"system": "s", "user": "u", "answer": [{"name": "f"}]}).to_string(), "parameters"),
            (json!({"system": "s", "answer": []}).to_string(), "missing column `user`"),
        ] {
            let e = read(&format!("{}\n{bad}", row("<response> a </response>"))).unwrap_err();
            assert!(e.message.contains("line 2") && e.message.contains(word), "{}", e.message);
        }
    }

    /// Reads a whole file and checks that the verifier accepts the reference of every row. Returns the number of rows
    /// by level.
    fn levels_of(file: &Path) -> BTreeMap<u32, usize> {
        let environment = crate::testing::environment(&json!({"kind": "function-calling"}), 1).unwrap();
        let reading = ImportContext { name: "toolrl".into(), split: "test".into(), ..ImportContext::default() };
        let problems = read_file("toolrl", file, &reading).unwrap().problems;
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        let mut ids = std::collections::BTreeSet::new();
        for problem in &problems {
            *counts.entry(problem.level).or_default() += 1;
            assert!(ids.insert(&problem.id), "{}", problem.id);
            assert_eq!(problem.messages.iter().map(|m| m.role.as_str()).collect::<Vec<_>>(), ["system", "user"]);
            let answer = environment.read_answer(problem.reference.as_deref().unwrap()).unwrap();
            assert!(environment.verify(problem, &answer).unwrap(), "{problem:?}");
        }
        let few = ImportContext { limit: Some(2), ..reading };
        assert_eq!(read_file("toolrl", file, &few).unwrap().problems, problems[..2]);
        counts
    }

    /// The file has three rows with kitchen tools that pandas wrote in the form of ToolRL's trainer: one call, two
    /// calls, only text.
    #[test]
    fn parquet_files_have_right_gold_calls() {
        assert_eq!(levels_of(Path::new("src/import/samples/toolrl.parquet")), BTreeMap::from([(1, 2), (2, 1)]));
    }

    #[test]
    fn real_files_have_right_gold_calls() {
        for (path, levels) in [
            ("toolrl/rlla_4k_test.parquet", BTreeMap::from([(1, 45), (2, 23), (3, 8), (4, 3), (5, 1)])),
            ("toolrl/api_bank_level1.json", BTreeMap::from([(1, 399)])),
        ] {
            let Some(file) = real(path) else { return };
            assert_eq!(levels_of(&file), levels);
        }
    }
}

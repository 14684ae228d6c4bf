//! Rules of `data/filter` on the user's own conversations: rows are masked, measured in tokens, and executed.

use crate::kit::Sandbox;
use serde_json::{Value, json};

/// Imports `chats.jsonl`, and filters it by `RULES`.
const FILE: &str = r#"
version: 1
name: own
stages:
  base: {uses: model/init, with: {hidden_size: 32, layers: 2, heads: 2, intermediate_size: 48}}
  chats: {uses: data/import, with: {source: chats.jsonl}}
  good:
    uses: data/filter
    with:
      trajectories: ["${{ stages.chats.trajectories }}"]
      model: ${{ stages.base.model }}
      rules: [RULES]
"#;

fn sandbox(chats: &[(&str, &str)], rules: &str) -> Sandbox {
    let s = Sandbox::new();
    let chat = |(question, answer): &(&str, &str)| {
        let messages = json!([{"role": "user", "content": question}, {"role": "assistant", "content": answer}]);
        format!("{}\n", json!({"messages": messages}))
    };
    s.write("chats.jsonl", chats.iter().map(chat).collect::<String>());
    s.write("own.yaml", FILE.replace("RULES", rules));
    s
}

/// Returns the answers of an output, and the reasons of the last verdicts as JSON text.
fn rows(s: &Sandbox, output: &str) -> Vec<(String, String)> {
    let name = format!("latest/good/{output}");
    let found = s.run(&["artifacts", "query", &name, "select answer, verdicts from self", "--format", "json"]).code(0);
    let found: Value = found.json();
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_string);
    found["rows"].as_array().unwrap().iter().map(|row| (text(&row[0]), text(&row[1]))).collect()
}

#[test]
fn personal_data_is_masked_in_the_outputs_and_named_nowhere() {
    let chats = [
        ("Who helps?", "Write to bo@example.org or call +49 30 1234567."),
        ("Which version?", "Version 81.2.3.4 of 2024-01-15."),
        ("Who else?", "Write to al@example.org or call +49 30 7654321."),
    ];
    let s = sandbox(&chats, "personal_data, exact_duplicates, {kind: pattern, pattern: '@', reject: true}");
    s.run(&["run", "own.yaml"]).code(0).says("kept 3");
    let kept = rows(&s, "kept");
    let answers: Vec<&str> = kept.iter().map(|(answer, _)| answer.as_str()).collect();
    assert_eq!(answers, ["Write to [EMAIL] or call [PHONE].", chats[1].1, answers[0]]);
    assert!(kept[0].1.contains("1 email, 1 phone") && !kept[0].1.contains("bo@"), "{}", kept[0].1);
    s.run(&["artifacts", "show", "latest/good/report", "--metrics"]).code(0).prints("edited");
    s.run(&["artifacts", "export", "latest/good/kept", "good.jsonl", "--as", "trl"]).code(0);
    let exported = s.read("good.jsonl");
    assert!(exported.contains("[EMAIL]") && !exported.contains("example.org"), "{exported}");
    // The questions are the same in these rows, so that the masked conversations are equal.
    let same = [("Who helps?", chats[0].1), ("Who helps?", chats[2].1)];
    let s = sandbox(&same, "personal_data, exact_duplicates");
    s.run(&["run", "own.yaml"]).code(0).says("kept 1");
    let s = sandbox(&same, "{kind: personal_data, action: reject, kinds: [iban]}");
    s.run(&["run", "own.yaml"]).code(0).says("kept 2");
    s.write("own.yaml", FILE.replace("RULES", "{kind: personal_data, kinds: [mail]}"));
    s.run(&["check", "own.yaml"]).code(2).says("mail").says("did you mean `email`?");
}

#[test]
fn rows_are_measured_in_tokens_of_a_model() {
    let long = "She has five apples. ".repeat(200);
    let chats = [("How many apples does Ann have after lunch?", "She has five apples."), ("How many?", long.as_str())];
    let s = sandbox(&chats, "{kind: tokens, min: 5, max: 600}");
    s.run(&["run", "own.yaml"]).code(0).says("kept 1");
    assert_eq!(rows(&s, "kept")[0].0, "She has five apples.");
    assert!(rows(&s, "rejected")[0].1.contains("too_long"));
    s.write("own.yaml", s.read("own.yaml").replace("      model: ${{ stages.base.model }}\n", ""));
    s.run(&["check", "own.yaml"]).code(2).says("the rule `tokens` needs a model").says("wire the input `model`");
}

#[test]
fn programs_of_rows_are_executed() {
    let chats = [
        ("Square a number.", "```python\ndef square(x):\n    return x * x\n```"),
        ("Square a number.", "Like this:\n```python\ndef square(x):\n    return x + x\n```\nDone."),
        ("Square a number.", "```python\nwhile True:\n    pass\n```"),
        ("Square a number.", "x times x"),
    ];
    let s = sandbox(&chats, "{kind: execution, test: 'assert square(3) == 9', limits: {time_millis: 500}}");
    s.run(&["run", "own.yaml"]).code(0).says("kept 1");
    assert_eq!(rows(&s, "kept")[0].0, chats[0].1);
    let reasons: Vec<String> = rows(&s, "rejected").into_iter().map(|(_, verdicts)| verdicts).collect();
    let expected = ["failed: tests: AssertionError", "time_limit: TimeoutError", "no_code"];
    for (reason, expected) in reasons.iter().zip(expected) {
        assert!(reason.contains(expected), "{reason} lacks {expected}");
    }
    assert_eq!(reasons.len(), 3);
}

/// An expression without a value for one row publishes nothing, and the same file runs once it has one.
#[test]
fn an_expression_that_overflows_names_the_row_and_publishes_nothing() {
    let chats = [("How many?", "Five."), ("How many more?", "Six.")];
    let keep = "{kind: expression, keep: 'abs(length(answer) - 4 - 9223372036854775807 - 1) > 0'}";
    let s = sandbox(&chats, keep);
    let ran = s.run(&["run", "own.yaml"]).code(1);
    ran.says("good: failed: rule `expression`: ").says("row `").says("integer overflow").says("CASE WHEN");
    for output in ["kept", "rejected", "report"] {
        let ran = s.run(&["artifacts", "show", &format!("latest/good/{output}")]);
        assert_ne!(ran.code, 0, "{output}: {}", ran.stdout);
    }
    s.write("own.yaml", FILE.replace("RULES", "{kind: expression, keep: 'abs(length(answer) - 5) = 0'}"));
    s.run(&["run", "own.yaml"]).code(0).says("kept 1");
}

#[test]
fn inputs_that_rules_need_are_named_before_the_run() {
    let s = sandbox(&[("How many?", "Five.")], "format, decontaminate, answer");
    s.run(&["check", "own.yaml"])
        .code(2)
        .says("the rule `decontaminate` needs the input `evaluation`")
        .says("wire the input `evaluation`, or remove the rule from `rules`")
        .says("the rule `answer` needs the input `problems`");
}

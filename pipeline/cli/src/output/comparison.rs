//! Formats the samples of several models on one problem.

use super::conversation::{self, plain};
use super::table::table;
use std::fmt::Write as _;
use trainyard_views::comparison::{ComparedModel, ProblemComparison};

/// Number of the greedy sample.
const GREEDY: i64 = -1;

/// Formats the question, the expected answer, a table of verdicts, and the conversation of each model.
pub fn text(found: &ProblemComparison) -> String {
    let of = format!("position {} of {}, counted from 0", found.position, found.problems);
    let mut text = format!("problem {} ({of})\n{}", found.problem, conversation::messages_text(&found.question));
    if let Some(expected) = &found.expected {
        let _ = writeln!(text, "\nexpected: {}", plain(expected));
    }
    let rows: Vec<Vec<String>> = found.models.iter().map(cells).collect();
    let header = ["model", "sample", "verdict", "answer", "reward", "drawn samples"];
    let _ = writeln!(text, "\n{}", table(&header, &rows));
    for model in &found.models {
        let _ = writeln!(text, "\n════ {}{}", model.model, body(model, found.question.len()));
    }
    text.trim_end().to_string()
}

fn cells(model: &ComparedModel) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    let sample = model.sample.map(|number| if number == GREEDY { "greedy".to_string() } else { number.to_string() });
    let drawn = model.drawn;
    vec![
        model.model.clone(),
        or_dash(sample),
        or_dash(model.verdict.clone()),
        or_dash(model.cell(&["extracted", "answer"]).map(plain)),
        or_dash(model.cell(&["reward"]).map(plain)),
        if drawn.of == 0 { "-".to_string() } else { format!("{} of {} right", drawn.right, drawn.of) },
    ]
}

/// Formats a conversation after the `shared` messages of the question.
fn body(model: &ComparedModel, shared: usize) -> String {
    let Some(row) = &model.row else {
        let reason = if model.sample.is_some() { "its rollout was not kept" } else { "it has no such sample" };
        return format!("\n({reason})");
    };
    let messages = model.messages().get(shared..).unwrap_or_default();
    let id = row.get("id").map(plain).unwrap_or_default();
    let verdict = conversation::answer(row).map(|verdict| format!("\n{verdict}")).unwrap_or_default();
    format!("  {id}\n{}\n{}{verdict}", conversation::messages_text(messages), conversation::ending(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_views::comparison::DrawnSamples;

    fn said(name: &str, text: &str, is_correct: bool) -> ComparedModel {
        let row = json!({
            "id": format!("evaluate/{name}/greedy/p1/0"), "reward": f64::from(u8::from(is_correct)),
            "messages": [{"role": "user", "content": "2+3?"}, {"role": "assistant", "content": text}],
            "stop_reason": "answer", "answer": text, "extracted": text, "expected": "5", "verifier": "numeric",
            "correct": is_correct, "unreadable": null,
        });
        ComparedModel {
            model: name.into(),
            artifact: "latest/evaluate/results".into(),
            sample: Some(-1),
            drawn: DrawnSamples { right: 1, of: 4 },
            verdict: Some(if is_correct { "right" } else { "wrong" }.into()),
            row: row.as_object().cloned(),
            place: None,
        }
    }

    #[test]
    fn a_question_is_followed_by_verdicts_and_conversations() {
        let missing = ComparedModel { model: "base".into(), ..ComparedModel::default() };
        let found = ProblemComparison {
            problem: "p1".into(),
            position: 2,
            problems: 9,
            question: vec![json!({"role": "user", "content": "2+3?"})],
            expected: Some(json!("5")),
            models: vec![said("sft", "6", false), said("rl", "5", true), missing],
            ..ProblemComparison::default()
        };
        let expected = "problem p1 (position 2 of 9, counted from 0)\n\n── user\n2+3?\n\nexpected: 5\n\n\
                        model  sample  verdict  answer  reward  drawn samples\n\
                        sft    greedy  wrong         6     0.0  1 of 4 right\n\
                        rl     greedy  right         5     1.0  1 of 4 right\n\
                        base   -       -             -       -  -\n\n\
                        ════ sft  evaluate/sft/greedy/p1/0\n\n── assistant\n6\n\n── end: answer\nreward 0.0\n\
                        verdict wrong: answer 6; expected: 5; verifier: numeric\n\n\
                        ════ rl  evaluate/rl/greedy/p1/0\n\n── assistant\n5\n\n── end: answer\nreward 1.0\n\
                        verdict right: answer 5; expected: 5; verifier: numeric\n\n\
                        ════ base\n(it has no such sample)";
        assert_eq!(text(&found), expected);
        let document = serde_json::to_value(&found).unwrap();
        assert_eq!(document["models"][0]["drawn"], json!({"right": 1, "of": 4}));
    }
}

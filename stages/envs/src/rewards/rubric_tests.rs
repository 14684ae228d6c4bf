use super::*;
use crate::rewards::kit::{answer, calling, episode};
use crate::rewards::reward::score_alone;
use crate::tools::ToolCall;
use serde_json::json;

fn problem(reference: &str) -> Problem {
    Problem { answer: "19".to_string(), reference: Some(reference.to_string()), ..Problem::default() }
}

fn value(p: &Problem, turns: &[&str]) -> f64 {
    let turns: Vec<Vec<Message>> = turns.iter().map(|text| answer(text)).collect();
    score_alone(&RubricReward(RubricOptions::default()), &episode(&turns), p).value.unwrap()
}

#[test]
fn points_are_counted_per_line() {
    let p = problem("x=12\nx+=7\n\nx+=7\nprint(x)");
    // Three distinct lines and the answer.
    assert_eq!(value(&p, &["x=12\nx+=7\nprint(x)", "19"]), 1.0);
    assert_eq!(value(&p, &["X=12", "then  x+=7", "18"]), 0.5);
    assert_eq!(value(&p, &["19"]), 0.25);
    assert_eq!(value(&p, &["x=123; x+=7.5; 1x=12", "18"]), 0.0, "parts of longer words and numbers");
    assert_eq!(value(&p, &["x=123 x=12.", "18"]), 0.25, "a full stop is not a decimal point");
}

#[test]
fn weights_shift_between_lines_and_answer() {
    let p = problem("x=12\nx+=7");
    let r = episode(&[answer("x=12"), answer("19")]);
    for (line_points, answer_points, expected) in [(1.0, 2.0, 0.75), (0.0, 1.0, 1.0), (1.0, 0.0, 0.5), (2.0, 1.0, 0.6)]
    {
        let score = score_alone(&RubricReward(RubricOptions { line_points, answer_points }), &r, &p);
        assert!((score.value.unwrap() - expected).abs() < 1e-12);
    }
}

#[test]
fn call_arguments_are_read_as_text() {
    let p = problem("x=12\nx+=7");
    let call = ToolCall { name: "python".to_string(), arguments: json!({"code": "x=12\nx+=7", "more": [1]}) };
    let r = episode(&[vec![calling(&[call])], answer("19")]);
    assert_eq!(score_alone(&RubricReward(RubricOptions::default()), &r, &p).value, Some(1.0));
}

#[test]
fn gsm8k_annotations_and_answer_line_are_not_criteria() {
    let p = problem("She sold 48/2 = <<48/2=24>>24 clips.\n#### 19");
    assert_eq!(criteria(&p).into_iter().collect::<Vec<_>>(), ["she sold 48/2 = 24 clips."]);
    assert_eq!(value(&p, &["She sold 48/2 = 24 clips.", "19"]), 1.0);
    assert_eq!(folded("a << b"), "a << b");
}

#[test]
fn nothing_to_judge() {
    let reward = RubricReward(RubricOptions::default());
    let bare = Problem { answer: "19".to_string(), ..Problem::default() };
    assert_eq!(value(&bare, &["19"]), 1.0, "the answer alone is a criterion");
    let lines_only = RubricReward(RubricOptions { line_points: 1.0, answer_points: 0.0 });
    assert_eq!(score_alone(&lines_only, &episode(&[answer("19")]), &bare).value, None);
    assert_eq!(score_alone(&reward, &Trajectory::default(), &problem("x")).value, None);
}

#[test]
fn overlapping_matches_are_found() {
    assert!(contains_whole("1 1", "11 1 1"));
    assert!(contains_whole("é", "é é1") && !contains_whole("é", "éé"));
    assert!(!contains_whole("1.5", "21.5") && !contains_whole("5", "1.5") && contains_whole("5", "1. 5"));
}

#[test]
fn more_lines_never_lower_the_value() {
    let lines = ["x=12", "x+=7", "y=x", "y"];
    let p = problem(&lines.join("\n"));
    let values: Vec<f64> =
        (0..=lines.len()).map(|n| value(&p, &[&format!("; {}", lines[..n].join("\n")), "18"])).collect();
    assert!(values.windows(2).all(|w| w[0] <= w[1]), "{values:?}");
    assert_eq!(values[lines.len()], 0.8);
}

#[test]
fn options_without_points_are_rejected() {
    assert_eq!(RubricOptions::default().check(), []);
    assert_eq!(RubricOptions { line_points: 0.0, answer_points: 0.0 }.check()[0].pointer, "");
    assert_eq!(RubricOptions { line_points: -1.0, answer_points: 1.0 }.check()[0].pointer, "/line_points");
}

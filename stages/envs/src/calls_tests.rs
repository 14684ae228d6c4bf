use super::*;
use crate::environments::{self, EpisodeStep};
use crate::tools::ToolHost;
use proptest::prelude::*;
use serde_json::json;
use trainyard_tables::Problem;

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { name: name.to_string(), arguments }
}

fn near(found: (f64, f64), expected: (f64, f64)) -> bool {
    (found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12
}

#[test]
fn calls_are_read_and_other_json_is_rejected() {
    let one = [call("get", json!({"city": "Paris"}))];
    assert_eq!(read(r#"[{"name":"get","arguments":{"city":"Paris"}}]"#).unwrap(), one);
    assert_eq!(gold_calls(r#"{"kind":"calls","gold":[{"name":"get","arguments":{"city":"Paris"}}]}"#).unwrap(), one);
    assert_eq!(gold_calls(r#"{"kind":"calls","gold":[]}"#).unwrap(), []);
    for broken in
        ["", "{}", "[1]", r#"[{"name":"get"}]"#, r#"[{"name":"get","arguments":"Paris"}]"#, r#"[{"arguments":{}}]"#]
    {
        assert_eq!(read(broken), None, "{broken}");
    }
    for other in [
        "",
        "{}",
        r#"{"kind":"numeric","gold":[]}"#,
        r#"{"kind":"calls"}"#,
        r#"{"kind":"calls","gold":[{"name":"get"}]}"#,
    ] {
        assert_eq!(gold_calls(other), None, "{other}");
    }
}

#[test]
fn equality_ignores_only_order_and_number_form() {
    let (a, b) = (call("f", json!({"x": 5, "y": [1, {"z": "s"}]})), call("g", json!({})));
    let other_form = call("f", json!({"y": [1.0, {"z": "s"}], "x": 5.0}));
    assert!(equal(&[a.clone(), b.clone()], &[b.clone(), other_form.clone()]));
    assert!(equal(&[], &[]));
    assert!(!equal(&[a.clone(), a.clone(), b.clone()], &[a.clone(), b.clone(), b.clone()]), "repetitions count");
    assert!(!equal(std::slice::from_ref(&a), &[a.clone(), b.clone()]));
    for different in [json!({"x": "5", "y": [1, {"z": "s"}]}), json!({"x": 5}), json!({"x": 5, "y": [{"z": "s"}, 1]})] {
        assert!(!equal(std::slice::from_ref(&a), &[call("f", different)]));
    }
    assert!(!equal(&[call("g", json!({"x": true}))], &[call("g", json!({"x": 1}))]));
}

#[test]
fn score_matches_hand_computed_sums() {
    let gold = [call("get", json!({"city": "Paris", "days": 3})), call("now", json!({}))];
    // Names 1/2; one of three parameter names shared, one value equal; S_max = 1 + (1 + 2) + (1 + 0).
    let predicted = [call("get", json!({"city": "Paris", "unit": "C"}))];
    assert!(near(score(&predicted, &gold), (0.5 + 1.0 / 3.0 + 1.0, 5.0)));
    // Correct parameters of another tool earn nothing.
    assert!(near(score(&[call("put", json!({"city": "Paris", "days": 3}))], &gold), (0.0, 5.0)));
    // Names are a multiset: 1 of 2.
    let twice = [call("now", json!({})), call("now", json!({}))];
    assert!(near(score(&twice, &gold[1..]), (0.5 + 1.0, 2.0)));
    // No call is expected: first none is made, then one.
    assert!(near(score(&[], &[]), (1.0, 1.0)));
    assert!(near(score(&twice, &[]), (0.0, 1.0)));
    assert!(near(score(&[], &gold), (0.0, 5.0)));
}

#[test]
fn pairing_is_optimal_not_greedy() {
    let gold = [call("f", json!({"a": 1, "b": 2})), call("f", json!({"a": 5, "b": 3}))];
    // Greedy in gold order: 2 + 1/2. Optimal: 3/2 + 2.
    let predicted = [call("f", json!({"a": 1, "b": 3})), call("f", json!({"a": 1}))];
    assert!(near(score(&predicted, &gold), (1.0 + 3.5, 7.0)));
}

#[test]
fn executed_calls_are_those_answered_by_a_tool() {
    let calls = r#"[{"name":"get","arguments":{}},{"name":"abacus","arguments":{}}]"#;
    let assistant = |calls: &str| Message { tool_calls: Some(calls.to_string()), ..Message::new("assistant", "") };
    let result = |text: &str| Message::new("tool", text);
    let names = |messages: &[Message]| executed(messages, 0).into_iter().map(|c| c.name).collect::<Vec<_>>();
    assert_eq!(names(&[assistant(calls), result("1"), result("2")]), ["get", "abacus"]);
    assert_eq!(names(&[assistant(calls), result("1"), result("error: no tool `abacus`; use one of: get")]), ["get"]);
    assert_eq!(
        names(&[assistant(calls), result("error: the tool call is empty"), result("1"), result("2")]),
        ["get", "abacus"]
    );
    assert_eq!(names(&[assistant(calls)]), [""; 0]);
    assert_eq!(names(&[assistant(calls), Message::new("user", "go on"), result("1")]), [""; 0]);
    assert_eq!(names(&[]), [""; 0]);
}

/// Checks that [`executed`] recognizes unknown tools by the message that the dialogue writes.
#[test]
fn unknown_tool_message_is_recognized() {
    let options = json!({"kind": "math-problems", "tools": ["calculator"], "format": "hermes"});
    let environment = environments::family().build(&options, &ToolHost::new(1)).unwrap();
    let mut episode = environment.start(&Problem::default(), 0).unwrap();
    let turn = environment.format().parse(r#"<tool_call>{"name": "abacus", "arguments": {}}</tool_call>"#);
    match episode.step(&turn).unwrap() {
        EpisodeStep::Observe(observation) => assert!(ToolResult::names_unknown_tool(&observation.messages[0].content)),
        other => panic!("{other:?}"),
    }
}

/// Tries all pairings: each row takes any free column or none.
fn by_trial(gains: &[Vec<f64>], free: &[usize]) -> f64 {
    let Some((row, rest)) = gains.split_first() else { return 0.0 };
    let without = by_trial(rest, free);
    let with =
        free.iter().map(|&c| row[c] + by_trial(rest, &free.iter().copied().filter(|&o| o != c).collect::<Vec<_>>()));
    with.fold(without, f64::max)
}

fn tables() -> impl Strategy<Value = (Vec<Vec<f64>>, usize)> {
    (0_usize..5, 0_usize..5).prop_flat_map(|(rows, columns)| {
        let gains = proptest::collection::vec(
            proptest::collection::vec((0_u8..9).prop_map(|g| f64::from(g) / 3.0), columns),
            rows,
        );
        (gains, Just(columns))
    })
}

fn some_calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let arguments = proptest::collection::btree_map("[abc]", 0_i64..3, 0..3);
    let one = ("[fg]", arguments).prop_map(|(name, arguments)| call(&name, json!(arguments)));
    proptest::collection::vec(one, 0..4)
}

proptest! {
    #[test]
    fn pairing_matches_brute_force(table in tables()) {
        let (gains, columns) = table;
        let all: Vec<usize> = (0..columns).collect();
        prop_assert!((best_pairing(&gains, columns) - by_trial(&gains, &all)).abs() < 1e-9);
    }

    #[test]
    fn score_is_between_zero_and_its_maximum(predicted in some_calls(), gold in some_calls()) {
        let (s, maximum) = score(&predicted, &gold);
        prop_assert!((-1e-9..=maximum + 1e-9).contains(&s));
        prop_assert_eq!(equal(&predicted, &gold), (s - maximum).abs() < 1e-9, "the maximum exactly for equal calls");
    }

    #[test]
    fn order_does_not_matter(calls in some_calls(), gold in some_calls()) {
        let reversed: Vec<ToolCall> = calls.iter().rev().cloned().collect();
        prop_assert!(equal(&calls, &reversed));
        prop_assert!(near(score(&calls, &gold), score(&reversed, &gold)));
    }
}

//! Tests parsing, evaluation, types and printing of the expressions of workflow files.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

struct Known;
impl Scope<ExprReference> for Known {
    fn value(&self, reference: &ExprReference) -> Option<Value> {
        match reference {
            ExprReference::Param(name) => param(name),
            ExprReference::Metric { stage, name, of: None } => {
                (stage == "gate" && name == "accuracy").then(|| json!(0.25))
            }
            ExprReference::Metric { stage, name, of: Some(of) } => {
                (stage == "compare" && name == "clip.fraction").then(|| json!(of.name()))
            }
            ExprReference::Status { stage } => (stage == "gate").then(|| json!("succeeded")),
            _ => None,
        }
    }
}

fn param(name: &str) -> Option<Value> {
    match name {
        "steps" => Some(json!(200)),
        "lr" => Some(json!(0.5)),
        "name" => Some(json!("qwen")),
        "list" => Some(json!([3, 1, 2])),
        "map" => Some(json!({"k": {"v": 7}})),
        "none" => Some(json!(null)),
        _ => None,
    }
}

fn value(text: &str) -> Value {
    Expression::parse(text)
        .unwrap_or_else(|f| panic!("{text}: {}", f.message))
        .evaluate(&Known)
        .unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn fault(text: &str) -> String {
    match Expression::parse(text) {
        Err(f) => f.message,
        Ok(e) => e.evaluate(&Known).unwrap_err().message,
    }
}

#[test]
fn values() {
    let cases = [
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("7 / 2", json!(3.5)),
        ("-7 % 3", json!(-1)),
        ("2 - -2", json!(4)),
        ("1e-5", json!(1e-5)),
        ("!true || 1 < 2 && 'a' == \"a\"", json!(true)),
        ("1 == 1.0", json!(true)),
        ("null == params.none", json!(true)),
        ("params.name != null", json!(true)),
        ("'it''s' + \"\\u00e9\\n\"", json!("it'sé\n")),
        ("params.list[0] + params.map.k.v", json!(10)),
        ("params.map['k'][\"v\"]", json!(7)),
        ("[1, 'x', params.steps]", json!([1, "x", 200])),
        ("len(params.list) == 3", json!(true)),
        ("min(params.list) + max(4, 2.5)", json!(5)),
        ("contains(params.list, 2.0) && contains('abc', 'bc')", json!(true)),
        ("starts_with(params.name, 'qw')", json!(true)),
        ("join(params.list, '-')", json!("3-1-2")),
        ("default(params.none, 5)", json!(5)),
        ("default(stages.gate.metrics.absent, 0.0)", json!(0.0)),
        ("default([stages.gate.metrics.accuracy, stages.gate.metrics.absent], 0)", json!(0)),
        ("stages.gate.metrics.absent == null && null != stages.gate.metrics.accuracy", json!(true)),
        ("stages.gate.metrics.accuracy > 0.2", json!(true)),
        ("stages.compare.metrics[\"clip.fraction\"].low == 'low'", json!(true)),
        ("stages[\"gate\"].status == 'succeeded'", json!(true)),
        ("false && params.absent", json!(false)),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn mistakes_are_named() {
    let cases = [
        ("1 + 'a'", "found an int and a string"),
        ("1 == 'a'", "two values of one type"),
        ("true < false", "two numbers or two strings"),
        ("1 && true", "two bools"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "too large"),
        ("99999999999999999999", "too large"),
        ("a.b", "not a root"),
        ("param.x", "not a root"),
        ("lenn(1)", "no function `lenn`"),
        ("len(1, 2)", "2 arguments"),
        ("params", "a name is missing"),
        ("stages.a", "a name is missing"),
        ("1 +", "ends too early"),
        ("1 2", "should end here"),
        ("(1", "expected `)`"),
        ("'open", "never closed"),
        ("1 < 2 < 3", "do not chain"),
        ("(1 < 2 < 3)", "do not chain"),
        ("1 = 2", "unexpected character"),
        ("", "empty"),
        ("params.list[3]", "outside of this list"),
        ("params.map.x", "no key `x`"),
        ("5s", "followed by letters"),
        ("params.absent", "not known here"),
        ("stages.gate.metrics.absent > 0.5", "not known here"),
        ("stages.compare.metrics.clip.fraction", "`fraction` is not a number of a comparison"),
        ("default(params.absent, 1)", "not known here"),
    ];
    for (text, part) in cases {
        let message = fault(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn comparing_comparisons_needs_parentheses() {
    assert_eq!(value("(1 < 2) == true"), json!(true));
    assert_eq!(value("true == (1 < 2)"), json!(true));
}

#[test]
fn nesting_is_bounded() {
    assert!(fault(&format!("{}1{}", "(".repeat(100), ")".repeat(100))).contains("nest"));
    assert!(fault(&format!("{}1", "-".repeat(100_000))).contains("at most"));
    assert!(fault(&format!("1{}", " + 1".repeat(100_000))).contains("at most"));
    assert_eq!(value(&format!("1{}", " + 1".repeat(400))), json!(401));
}

#[test]
fn ranges_point_at_the_part_that_is_wrong() {
    let text = "1 + (2 * 'x')";
    let e = Expression::parse(text).unwrap();
    let fault = e.rewrite(&mut |_, _| Ok(None)).unwrap_err();
    assert_eq!(&text[fault.range], "(2 * 'x')");
    let text = "params.a + prams.b";
    assert_eq!(&text[Expression::parse(text).unwrap_err().range], "prams");
}

#[test]
fn an_embedded_expression_ends_at_its_braces() {
    let text = "x ${{ '}}' + params.name }} y";
    let (parsed, end) = parse_embedded(text, 5);
    assert_eq!(parsed.unwrap().to_string(), "\"}}\" + params.name");
    assert_eq!(&text[end..], " y");
    let (parsed, end) = parse_embedded("${{ 1 ? 2 }} z", 3);
    assert!(parsed.is_err());
    assert_eq!(end, 12);
}

#[test]
fn folding_computes_only_what_counts_but_knows_every_name() {
    let fold = |text: &str| {
        let e = Expression::parse(text).unwrap();
        e.rewrite(&mut |r, range| match r {
            ExprReference::Param(p) => {
                param(p).map(|v| Some(Term::Literal(v))).ok_or_else(|| ExpressionError::new(range, format!("no {p}")))
            }
            _ => Ok(None),
        })
    };
    for (text, expected) in [
        ("params.none == null || len(params.none) > 3", "true"),
        ("params.none != null && len(params.none) > 3", "false"),
        ("default(params.steps, len(params.none))", &param("steps").unwrap().to_string()),
    ] {
        assert_eq!(fold(text).unwrap().to_string(), expected, "{text}");
    }
    for text in ["true || params.absent", "default(params.steps, params.absent)"] {
        assert_eq!(fold(text).unwrap_err().message, "no absent", "{text}");
    }
    assert!(fold("params.none == null && len(params.none) > 3").is_err());
}

#[test]
fn folding_keeps_what_is_late() {
    let e = Expression::parse("params.steps * 2 > 100 && stages.gate.metrics.accuracy > params.lr / 2").unwrap();
    let folded = e
        .rewrite(&mut |r, _| Ok(if let ExprReference::Param(p) = r { param(p).map(Term::Literal) } else { None }))
        .unwrap();
    assert_eq!(folded.to_string(), "stages.gate.metrics.accuracy > 0.25");
    assert_eq!(folded.check_types().unwrap(), ExprType::Bool);
}

#[test]
fn types_of_late_parts_are_checked() {
    for text in [
        "stages.a.metrics.m == 'x'",
        "stages.a.status > 1",
        "!stages.a.metrics.m",
        "stages.a.metrics.m && true",
        "stages.a.status + 1",
        "stages.a.model == 1",
        "len(stages.a.metrics.m)",
    ] {
        assert!(Expression::parse(text).unwrap().check_types().is_err(), "{text}");
    }
    for text in [
        "stages.a.metrics.m > 1",
        "stages.a.status == 'failed' || item.x",
        "max([stages.a.metrics.m, 1]) > 0",
        "default(stages.a.metrics.m, 0) + 1",
        "stages.a.metrics.m == null",
    ] {
        assert!(Expression::parse(text).unwrap().check_types().is_ok(), "{text}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("params.a".to_string()),
        Just("item".to_string()),
        Just("matrix[\"odd name\"]".to_string()),
        Just("stages[\"rl[seed=1]\"].metrics.reward".to_string()),
        Just("stages.a.metrics.tokens.low".to_string()),
        Just("stages.a.metrics[\"clip.fraction\"].difference".to_string()),
        Just("stages.a.status".to_string()),
        Just("stages.a.port".to_string()),
        Just("null".to_string()),
        Just("true".to_string()),
        any::<i64>().prop_filter("the least has no positive twin", |i| *i != i64::MIN).prop_map(|i| i.to_string()),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| json!(f).to_string()),
        any::<String>().prop_map(|s| json!(s).to_string()),
        "[a-z' ]{0,5}".prop_map(|s| format!("'{}'", s.replace('\'', "''"))),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..BinaryOperator::ALL.len(), inner.clone())
                .prop_map(|(a, o, b)| format!("({a} {} {b})", BinaryOperator::ALL[o].symbol())),
            inner.clone().prop_map(|a| format!("!{a}")),
            inner.clone().prop_map(|a| format!("-({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            // A metric of a stage has numbers (`.low`) and no other key.
            inner.clone().prop_map(|a| format!("(default({a}, 0)).name")),
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|v| format!("[{}]", v.join(", "))),
            (inner.clone(), inner).prop_map(|(a, b)| format!("default({a}, {b})")),
        ]
    })
}

#[test]
fn index_of_a_metric_prints_with_brackets() {
    for text in ["(stages.a.metrics.m)['low']", "(stages.a.metrics.m)['name']", "(stages.a.metrics.m)[params.a]"] {
        let first = Expression::parse(text).unwrap();
        assert_eq!(Expression::parse(&first.to_string()).unwrap(), first, "{text}");
    }
}

#[test]
fn key_of_a_number_prints_without_loss() {
    for text in ["1 .e5", "1.x", "(-1).x", "0.5['x']"] {
        let read = Expression::parse(text).unwrap();
        let printed = read.to_string();
        assert_eq!(Expression::parse(&printed).unwrap(), read, "{printed}");
        assert!(!printed.contains('['), "{printed}");
    }
}

#[test]
fn what_is_printed_nests_no_deeper_than_what_was_read() {
    for innermost in ["1 + null", "stages.a.metrics.m['low']", "1['x']", "1[0]", "-(1)"] {
        let open =
            (1..64).rev().find(|n| Expression::parse(&format!("{}{innermost}", "!".repeat(*n))).is_ok()).unwrap();
        let deepest = Expression::parse(&format!("{}{innermost}", "!".repeat(open))).unwrap();
        let printed = deepest.to_string();
        assert_eq!(Expression::parse(&printed).map_err(|fault| fault.message), Ok(deepest), "{printed}");
    }
}

proptest! {
    #[test]
    fn printing_and_parsing_are_inverse(text in texts()) {
        let first = Expression::parse(&text).unwrap();
        let printed = first.to_string();
        let second = Expression::parse(&printed).unwrap_or_else(|f| panic!("{printed}: {}", f.message));
        prop_assert_eq!(&first, &second, "{}", printed);
        prop_assert_eq!(printed, second.to_string());
    }

    #[test]
    fn no_text_panics(text in "[-a-z0-9.+*/%()\\[\\]!<>=&|'\"\\\\ ,{}é$]{0,60}") {
        if let Ok(e) = Expression::parse(&text) {
            let _ = e.evaluate(&Known);
            let _ = e.check_types();
        }
        let (_, end) = parse_embedded(&text, 0);
        prop_assert!(end <= text.len() + 2);
    }

    #[test]
    fn evaluating_at_once_and_in_two_steps_agree(text in texts()) {
        let e = Expression::parse(&text).unwrap();
        let folded = e.rewrite(&mut |r, _| {
            Ok(if let ExprReference::Param(p) = r { param(p).map(Term::Literal) } else { None })
        });
        if let (Ok(value), Ok(folded)) = (e.evaluate(&Known), &folded) {
            prop_assert_eq!(Some(value), folded.evaluate(&Known).ok());
        }
    }
}

//! Compares the verdicts of every rule on 100,000 made rows with recorded digests.

use super::RuleVerdict;
use super::tests::verdicts;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{EpisodeStatus, Message, Problem, Trajectory};

const ROWS: u64 = 100_000;

/// Returns `n` words; small numbers are frequent.
fn words(draws: &mut PhiloxRng, n: u64) -> Vec<String> {
    (0..n).map(|_| format!("w{}", (1500.0 * draws.uniform().powi(3)) as u32)).collect()
}

/// Returns the conversation of row `i`: one of twenty forms, some of which repeat a row before it.
fn messages(i: u64) -> Vec<Message> {
    let mut draws = Chance::new(7).at("row", &[i]);
    let earlier = i.saturating_sub(1 + 40 * draws.below(100) / 100);
    let call = format!("<tool_call>{} + {}</tool_call>", draws.below(90), draws.below(90));
    let mut question = words(&mut draws, 12 + i % 30).join(" ");
    match i % 20 {
        _ if i < 50 => {}
        0 => return messages(earlier),
        1 => return replaced(messages(earlier), &mut draws),
        2 => question = messages(earlier)[0].content.to_uppercase().replace(' ', ", "),
        3 => question = format!("{} {question}", evaluation_question(i / 20 % 500)),
        4 => question = evaluation_question(i / 20 % 500),
        _ => {}
    }
    let answer = words(&mut draws, 20 + i % 40).join(" ");
    let answer = format!("{answer} so it is\n#### {}", i % 50 + u64::from(i.is_multiple_of(6)));
    let middle: &[(&str, &str)] = match i % 17 {
        0 => &[("assistant", "<tool_call>2+3"), ("tool", "5")],
        1 => &[("assistant", &call)],
        2 => &[("tool", "5")],
        3 => &[("assistant", "Let me think."), ("user", "Go on.")],
        4..=9 => &[("assistant", &call), ("tool", "5")],
        10 => &[("assistant", &call), ("tool", "5"), ("tool", "6"), ("assistant", &call), ("tool", "7")],
        _ => &[],
    };
    let end = if i % 23 == 1 { "" } else { answer.as_str() };
    let all = [("user", question.as_str())].into_iter().chain(middle.iter().copied()).chain([("assistant", end)]);
    all.map(|(role, text)| Message::new(role, text)).collect()
}

/// Replaces one of twenty words of each message.
fn replaced(mut messages: Vec<Message>, draws: &mut PhiloxRng) -> Vec<Message> {
    for message in &mut messages {
        let new = message.content.split(' ').map(|word| match draws.below(20) {
            0 => "replaced".to_string(),
            _ => word.to_string(),
        });
        message.content = new.collect::<Vec<_>>().join(" ");
    }
    messages
}

fn evaluation_question(i: u64) -> String {
    words(&mut Chance::new(7).at("evaluation", &[i]), 10 + i % 20).join(" ")
}

fn row(i: u64) -> Trajectory {
    let messages = messages(i);
    let last = messages.last().map(|message| message.content.clone()).unwrap_or_default();
    let answer = match i % 11 {
        0 => None,
        1..=5 => Some(format!("{}", i % 50)),
        _ => Some(last),
    };
    Trajectory {
        id: format!("row-{i}"),
        problem_id: if i % 31 == 7 { "missing".into() } else { format!("p{}", i % 50) },
        group: (i / 4) as u32,
        level: (i % 7) as u32,
        reward: [0.0, 0.25, 1.0][i as usize % 3],
        rewards: if i.is_multiple_of(3) { [("answer".to_string(), (i % 5) as f64 / 4.0)].into() } else { [].into() },
        turns: messages.iter().filter(|message| message.role == "assistant").count() as u32,
        tool_calls: (i % 4) as u32,
        tool_errors: (i % 3) as u32,
        seed: i,
        status: if i.is_multiple_of(97) { EpisodeStatus::Infrastructure } else { EpisodeStatus::Ok },
        meta: i.is_multiple_of(2).then(|| json!({"quality": (i % 10) as f64 / 10.0, "lang": "en"}).to_string()),
        answer,
        messages,
        ..Trajectory::default()
    }
}

fn problems() -> Vec<Problem> {
    let problem = |i: u64| Problem {
        id: format!("p{i}"),
        answer: i.to_string(),
        canonical: if i < 5 { format!("form {}", i / 2) } else { String::new() },
        ..Problem::default()
    };
    (0..50).map(problem).collect()
}

fn evaluation() -> Vec<Problem> {
    let problem = |i: u64| Problem {
        id: format!("e{i}"),
        messages: vec![Message::new("user", evaluation_question(i))],
        canonical: if i == 0 { "form 1".into() } else { String::new() },
        ..Problem::default()
    };
    (0..500).map(problem).collect()
}

/// Returns the number of rejected rows and a digest of all verdicts with their reasons.
fn recorded(rule: &Value, rows: &[Trajectory]) -> (usize, String) {
    let mut text = String::new();
    let mut rejected = 0;
    for verdict in verdicts(rule, rows, &problems(), &evaluation()).unwrap() {
        let _ = match verdict {
            RuleVerdict::Keep => writeln!(text, "keep"),
            RuleVerdict::KeepWithReason(reason) => writeln!(text, "keep: {reason}"),
            RuleVerdict::Edit { reason, .. } => writeln!(text, "edit: {reason}"),
            RuleVerdict::Reject { code, detail } => {
                rejected += 1;
                writeln!(text, "{code}: {detail}")
            }
        };
    }
    (rejected, Digest::of(text.as_bytes()).to_string()[..16].to_string())
}

#[test]
fn verdicts_equal_the_recorded_ones() {
    let rows: Vec<Trajectory> = (0..ROWS).map(row).collect();
    let program = "import json, sys\nsys.stdin.readline()\n\
        print(json.dumps({'type': 'ready', 'protocol': 1}), flush=True)\n\
        for line in sys.stdin:\n request = json.loads(line)\n\
        \x20verdict = lambda row: {'keep': len(json.dumps(row['messages'])) % 3 > 0, 'reason': str(row['turns'])}\n\
        \x20print(json.dumps({'id': request['id'], 'result': [verdict(row) for row in request['items']]}), flush=True)";
    let cases: [(Value, usize, &str); 16] = [
        (json!("format"), 21_446, "b8d47057b6130965"),
        (json!("void_turn"), 15_869, "c70c58425e0d447f"),
        (json!("answer"), 25_212, "b856017161a54b2d"),
        (json!("exact_duplicates"), 5194, "f660f1cbaab2d171"),
        (json!({"kind": "exact_duplicates", "on": "question"}), 21_653, "a2c8fd8d12b6b13b"),
        (json!("near_duplicates"), 5831, "944233e92003c1af"),
        (
            json!({"kind": "near_duplicates", "on": "question", "ngram": 3, "threshold": 0.7, "bands": 20, "rows": 5}),
            17_694,
            "a637487d4369700a",
        ),
        (json!("decontaminate"), 14_403, "21d698d1be897c6a"),
        (
            json!({"kind": "decontaminate", "methods": ["coverage_8", "canonical"], "coverage": 0.3}),
            14_467,
            "3af7664cd2f57573",
        ),
        (json!({"kind": "expression", "keep": "tool_errors <= 1 and level < 4"}), 61_904, "bc04a1f8d1c575b2"),
        (
            json!({"kind": "expression", "keep": "reward >= avg(reward) or rewards_answer > 0.5"}),
            53_333,
            "9ba0be9ee09c0d82",
        ),
        (json!({"kind": "expression", "keep": "meta_quality > 0.3 and answer like '%1%'"}), 84_230, "3595aebe760ebf8a"),
        (json!({"kind": "pattern", "pattern": "^[0-9]+$"}), 54_545, "d8260c6b0236022a"),
        (
            json!({"kind": "pattern", "pattern": "w1[0-9]? w2", "of": "conversation", "reject": true}),
            42_368,
            "e68114b8650c6f9e",
        ),
        (json!({"kind": "pattern", "pattern": "so it is", "of": "last_message"}), 5100, "40cd4496dc6e1823"),
        (json!({"kind": "process", "command": ["python3", "-c", program]}), 33_158, "df20c3c044f844b4"),
    ];
    let found = cases.map(|(rule, rejected, digest)| {
        let recorded = recorded(&rule, &rows);
        (recorded == (rejected, digest.to_string()), format!("{rule}: {recorded:?}"))
    });
    let differing: Vec<String> = found.into_iter().filter(|(equal, _)| !equal).map(|(_, text)| text).collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

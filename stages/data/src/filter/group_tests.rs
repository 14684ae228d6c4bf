//! Tests the rules that compare the rows of a group: `diversity`, `pass_rate` and `rank`.

use super::edit_tests::filtered;
use super::tests::{verdicts, verdicts_in_batches};
use super::*;
use proptest::prelude::*;
use std::cmp::Reverse;
use trainyard_tables::{EpisodeStatus, Message, Trajectory, write_trajectories};

/// Returns a row of a problem whose reward component `answer` is `reward`.
fn row(id: &str, problem: &str, reward: f64, answer: &str) -> Trajectory {
    Trajectory {
        id: id.into(),
        problem_id: problem.into(),
        reward,
        rewards: [("answer".to_string(), reward)].into(),
        messages: vec![Message::new("user", format!("Question of {problem}")), Message::new("assistant", answer)],
        ..Trajectory::default()
    }
}

/// Returns the reasons, empty where a row is kept; they are equal for batches of one row, of two rows and of all.
fn reasons(rule: Value, rows: &[Trajectory]) -> Vec<String> {
    let rule = &rule;
    let [one, two, all] = [1, 2, rows.len()]
        .map(|size| verdicts_in_batches(rule, rows, (&[], &[]), &[], size).unwrap().iter().map(text).collect());
    assert_eq!((&one, &two), (&all, &all), "{rule}");
    all
}

fn text(verdict: &RuleVerdict) -> String {
    match verdict {
        RuleVerdict::Reject { code, detail } => format!("{code}: {detail}"),
        _ => String::new(),
    }
}

fn kept(rule: Value, rows: &[Trajectory]) -> Vec<usize> {
    let reasons = reasons(rule, rows);
    reasons.iter().enumerate().filter(|(_, reason)| reason.is_empty()).map(|(row, _)| row).collect()
}

#[test]
fn a_group_keeps_its_first_rows_or_the_preferred_ones() {
    let rows = [
        row("a", "p", 0.0, "four"),
        row("b", "q", 1.0, "4"),
        row("c", "p", 1.0, "it is four"),
        row("d", "p", 0.5, "4"),
        row("e", "p", 1.0, "4"),
    ];
    let rule = |prefer: &str| json!({"kind": "diversity", "max_per_group": 2, "prefer": prefer});
    let over = "over_cap: p (at most 2)";
    assert_eq!(reasons(rule("first"), &rows), ["", "", "", over, over]);
    assert_eq!(kept(rule("reward"), &rows), [1, 2, 4]);
    assert_eq!(kept(rule("shortest"), &rows), [1, 3, 4]);
    assert_eq!(kept(rule("longest"), &rows), [0, 1, 2]);
}

#[test]
fn random_rows_depend_on_the_seed_only() {
    let rows: Vec<Trajectory> = (0..40).map(|i| row(&i.to_string(), "p", 0.0, "4")).collect();
    let chosen =
        |seed: u64| kept(json!({"kind": "diversity", "max_per_group": 10, "prefer": "random", "seed": seed}), &rows);
    let all = [0, 1, 2].map(chosen);
    assert!(all.iter().all(|rows| rows.len() == 10), "{all:?}");
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != (0..10).collect::<Vec<_>>());
    assert_eq!(chosen(1), all[1]);
}

#[test]
fn groups_may_be_of_any_property() {
    let mut rows = [
        row("a", "p", 0.0, "four"),
        row("b", "q", 0.0, "five"),
        row("c", "r", 0.0, "<tool_call>2+3</tool_call>"),
        row("d", "s", 0.0, "eight by far"),
        row("e", "s", 0.0, "<tool_call>9-1</tool_call>"),
    ];
    for (row, (level, environment, meta)) in rows.iter_mut().zip([
        (1, "math", Some(r#"{"source": "web"}"#)),
        (2, "math", Some(r#"{"source": "book"}"#)),
        (1, "code", None),
        (3, "code", Some(r#"{"source": "web"}"#)),
        (2, "math", Some(r#"{"source": null}"#)),
    ]) {
        (row.level, row.environment, row.meta) = (level, environment.into(), meta.map(String::from));
    }
    let kept = |by: &str| kept(json!({"kind": "diversity", "by": by, "max_per_group": 1}), &rows);
    assert_eq!(kept("problem"), [0, 1, 2, 3]);
    assert_eq!(kept("environment"), [0, 2]);
    assert_eq!(kept("level"), [0, 1, 3]);
    assert_eq!(kept("meta_source"), [0, 1, 2]);
    assert_eq!(kept("tools"), [0, 2]);
    // Four, twelve and twenty-six characters.
    assert_eq!(kept("length_bucket"), [0, 2, 3]);
    let prefix = |words: usize| {
        let rule = json!({"kind": "diversity", "by": "question_prefix", "prefix_words": words, "max_per_group": 1});
        reasons(rule, &rows)
    };
    assert_eq!(prefix(2)[4], "over_cap: question of (at most 1)");
    assert_eq!(prefix(3), ["", "", "", "", "over_cap: question of s (at most 1)"]);
}

#[test]
fn rows_of_problems_in_the_band_are_kept() {
    // Rates: none 0 of 2, some 1 of 2, all 2 of 2, tenth 1 of 10; one attempt at `once`, none that counts at `lost`.
    let mut rows = vec![
        row("a", "none", 0.0, "4"),
        row("b", "some", 1.0, "4"),
        row("c", "all", 1.0, "4"),
        row("d", "once", 1.0, "4"),
        Trajectory { status: EpisodeStatus::Infrastructure, ..row("e", "lost", 0.0, "") },
        row("f", "all", 0.5, "4"),
        row("g", "some", 0.4, "4"),
        row("h", "none", 0.0, "4"),
    ];
    rows.extend((0..10).map(|i| row(&format!("t{i}"), "tenth", f64::from(u8::from(i == 3)), "4")));
    let (easy, hard) = ("too_easy: 2 of 2 attempts at all passed", "too_hard: 0 of 2 attempts at none passed");
    let (once, lost) = ("few_attempts: 1 of 1 attempts at once passed", "few_attempts: 0 of 0 attempts at lost passed");
    let expected = |once: &'static str, lost: &'static str| {
        [vec![hard, "", easy, once, lost, easy, "", hard], vec![""; 10]].concat()
    };
    assert_eq!(reasons(json!("pass_rate"), &rows), expected(once, lost));
    assert_eq!(reasons(json!({"kind": "pass_rate", "unknown": "keep"}), &rows), expected("", ""));
    let narrow = kept(json!({"kind": "pass_rate", "min": 0.5, "max": 0.5}), &rows);
    assert_eq!(narrow, [1, 6]);
    assert_eq!(kept(json!({"kind": "pass_rate", "min": 1, "max": 1, "min_rows": 1, "threshold": 0.6}), &rows), [3]);
    let error = verdicts(&json!({"kind": "pass_rate", "reward": "answr"}), &rows, &[], &[]).unwrap_err();
    assert!(error.to_string().contains("no row has the reward component `answr`"), "{error}");
}

#[test]
fn pass_rates_may_be_those_of_another_model() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [row("a", "p", 1.0, "4"), row("b", "q", 1.0, "4"), row("c", "r", 1.0, "4")];
    let files = ["first", "second"].map(|name| folder.path().join(name));
    let attempt = |problem: &str, reward: f64| row(&format!("{problem} {reward}"), problem, reward, "");
    write_trajectories(&files[0], &[attempt("p", 1.0), attempt("q", 1.0)]).unwrap();
    write_trajectories(&files[1], &[attempt("q", 1.0), attempt("p", 0.0)]).unwrap();
    let rule = json!({"kind": "pass_rate", "attempts": "rated"});
    let found = verdicts_in_batches(&rule, &rows, (&[], &[]), &files, 2).unwrap();
    let expected = ["", "too_easy: 2 of 2 attempts at q passed", "few_attempts: 0 of 0 attempts at r passed"];
    assert_eq!(found.iter().map(text).collect::<Vec<_>>(), expected);
    let error = verdicts_in_batches(&rule, &rows, (&[], &[]), &[], 2).unwrap_err();
    assert!(error.help.as_deref().unwrap().contains("wire `rated`"), "{error}");
}

#[test]
fn the_best_rows_of_each_problem_are_kept() {
    let rows = [
        row("a", "p", 1.0, "it is four"),
        row("b", "p", 1.0, "4"),
        row("c", "q", 0.0, "5"),
        row("d", "p", 0.0, "5"),
        row("e", "q", 0.0, "6"),
        Trajectory { tool_errors: 1, ..row("f", "p", 1.0, "") },
    ];
    assert_eq!(kept(json!("rank"), &rows), [0, 2]);
    assert_eq!(kept(json!({"kind": "rank", "by": ["reward", "shortest"]}), &rows), [2, 5]);
    assert_eq!(kept(json!({"kind": "rank", "by": ["fewest_tool_errors", "reward", "shortest"]}), &rows), [1, 2]);
    let mixed = reasons(json!({"kind": "rank", "keep": 2, "mixed_only": true}), &rows);
    let (plain, best) = ("not_mixed: q has 0 right and 2 wrong rows", "not_among_best: place ");
    assert_eq!(mixed[..3], ["", "", plain]);
    assert_eq!(mixed[3..], [format!("{best}4 of 4 for p"), plain.into(), format!("{best}3 of 4 for p")]);
}

/// Returns the counts of rules that judged rows one after the other.
fn counts(rules: &[Value], rows: &[Trajectory]) -> Vec<Count> {
    let rules: Vec<_> = rules.iter().map(|rule| rules::registry::family().build(rule, &()).unwrap()).collect();
    filtered(&rules, &[rows]).unwrap().counts
}

/// Returns the rows of the report's table whose title begins like this.
fn table(report: &trainyard_api::report::StageReport, title: &str) -> Value {
    let table = report.tables.iter().find(|table| table.title.starts_with(title)).unwrap();
    serde_json::to_value(&table.rows).unwrap()
}

#[test]
fn measured_numbers_and_examples_reach_the_report() {
    let right = |i: usize| f64::from(u8::from(i < 5));
    let rows: Vec<Trajectory> = (0..8).map(|i| row(&i.to_string(), &format!("p{}", i / 4), right(i), "4")).collect();
    let counts = counts(&[json!("pass_rate"), json!("rank")], &rows);
    assert_eq!(counts.iter().map(|c| (c.judged, c.rejected())).collect::<Vec<_>>(), [(8, 4), (4, 3)]);
    let report = report::report(8, 1, &counts, &UnreadableRows::default());
    report.validate().unwrap();
    let numbers = table(&report, "Numbers");
    let buckets: Vec<&Value> = numbers.as_array().unwrap().iter().filter(|bucket| bucket[4] != 0.0).collect();
    let number = "pass rate of the row's problem";
    assert_eq!(buckets[0], &json!(["pass_rate", number, 0.25, 0.375, 4.0]));
    assert_eq!(buckets[1..], [&json!(["pass_rate", number, 1.0, 1.0, 4.0])]);
    let examples = table(&report, "Examples");
    let ids: Vec<&str> = examples.as_array().unwrap().iter().map(|row| row[2].as_str().unwrap()).collect();
    assert_eq!(ids, ["0", "1", "2", "5", "6", "7"], "three rows of each reason");
}

#[test]
fn near_duplicates_tell_the_similarities_that_they_computed() {
    let rows = [row("a", "p", 0.0, "one"), row("b", "q", 0.0, "some other text"), row("c", "p", 0.0, "one")];
    let counts = counts(&[json!("near_duplicates")], &rows);
    let measured = counts[0].measured.as_ref().unwrap();
    let buckets: Vec<_> = measured.values.buckets().iter().map(|b| (b.low, b.high, b.count)).collect();
    assert_eq!((measured.name, buckets), ("similarity of compared pairs", vec![(1.0, 1.0, 1)]));
}

/// Returns the kept rows by the definition: a row is kept if fewer than `keep` rows of its problem are better.
fn naive(rows: &[Trajectory], keep: usize, mixed_only: bool) -> Vec<usize> {
    let key = |row: usize| {
        let length = rows[row].messages[1].content.len();
        (Reverse((rows[row].reward * 4.0) as i64), rows[row].tool_errors, length, row)
    };
    let of_problem = |row: usize| (0..rows.len()).filter(move |other| rows[*other].problem_id == rows[row].problem_id);
    let is_kept = |row: &usize| {
        let right = of_problem(*row).filter(|other| rows[*other].rewards["answer"] >= 0.5).count();
        let is_mixed = right > 0 && right < of_problem(*row).count();
        (is_mixed || !mixed_only) && of_problem(*row).filter(|other| key(*other) < key(*row)).count() < keep
    };
    (0..rows.len()).filter(is_kept).collect()
}

proptest! {
    #[test]
    fn rank_equals_its_definition(
        drawn in proptest::collection::vec((0..5_u8, 0..4_u8, 0..3_u32, 0..3_usize), 1..60),
        keep in 1..5_usize,
        mixed_only in any::<bool>(),
    ) {
        let made = |(i, (problem, reward, errors, length)): (usize, &(u8, u8, u32, usize))| Trajectory {
            tool_errors: *errors,
            ..row(&i.to_string(), &format!("p{problem}"), f64::from(*reward) / 4.0, &"x".repeat(*length))
        };
        let rows: Vec<Trajectory> = drawn.iter().enumerate().map(made).collect();
        let by = ["reward", "fewest_tool_errors", "shortest"];
        let rule = json!({"kind": "rank", "keep": keep, "by": by, "mixed_only": mixed_only});
        prop_assert_eq!(kept(rule, &rows), naive(&rows, keep, mixed_only));
    }
}

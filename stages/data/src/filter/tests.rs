use super::edit_tests::{Done, filtered};
use super::*;
use crate::testing::{environment, parts};
use trainyard_chat::Models;
use trainyard_envs::{Environment, ToolHost};
use trainyard_process::null_log;
use trainyard_tables::{Message, Trajectory, Verdict};

pub(super) fn calculator() -> Box<dyn Environment> {
    environment(&json!({"kind": "math-problems", "tools": ["calculator"], "format": "code"}), 1).unwrap()
}

/// Returns a conversation, starting with the user; tool results follow calls.
fn row(id: &str, messages: &[(&str, &str)]) -> Trajectory {
    let messages = messages.iter().map(|(role, text)| Message::new(role, *text)).collect();
    Trajectory { id: id.into(), problem_id: format!("problem of {id}"), messages, ..Trajectory::default() }
}

fn with_question(id: &str, question: &str) -> Trajectory {
    row(id, &[("user", question), ("assistant", "5")])
}

/// Model with one token for each word, which cannot express `unsayable`.
struct WordTokens;

impl TokenCounter for WordTokens {
    fn count(&self, row: &Trajectory) -> Result<usize> {
        let words: Vec<&str> = row.messages.iter().flat_map(|message| message.content.split_whitespace()).collect();
        if words.contains(&"unsayable") { Err(Error::data("unsayable")) } else { Ok(words.len()) }
    }
}

/// Returns the verdicts of a rule.
pub(super) fn verdicts(
    rule: &Value,
    rows: &[Trajectory],
    problems: &[Problem],
    evaluation: &[Problem],
) -> Result<Vec<RuleVerdict>> {
    let size = if rows.len() < 10 { 2 } else { 16_384 };
    verdicts_in_batches(rule, rows, (problems, evaluation), &[], size)
}

/// Returns the verdicts of a rule on batches of `size` rows; `rated` are files with attempts of another model.
pub(super) fn verdicts_in_batches(
    rule: &Value,
    rows: &[Trajectory],
    (problems, evaluation): (&[Problem], &[Problem]),
    rated: &[PathBuf],
    size: usize,
) -> Result<Vec<RuleVerdict>> {
    let problems = problems.iter().map(|p| (p.id.clone(), p.clone())).collect();
    let scratch = tempfile::tempdir().unwrap();
    let environment = calculator();
    let context = RuleContext {
        problems: &problems,
        evaluation,
        rated,
        environment: environment.as_ref(),
        scratch: scratch.path(),
        log: &null_log(),
        models: &Models::in_memory(),
        host: &ToolHost::new(1),
        tokens: Some(&WordTokens),
    };
    let rule = rules::registry::family().build(rule, &())?;
    let mut pass = rule.start(&context)?;
    let batches = |size: usize| rows.chunks(size).map(|rows| RuleRows::of(&rows.iter().collect::<Vec<_>>()));
    if rule.observes() {
        batches(size).try_for_each(|rows| pass.observe(&rows?))?;
    }
    let mut verdicts = Vec::new();
    batches(size).try_for_each(|rows| pass.judge(&rows?).map(|more| verdicts.extend(more)))?;
    pass.finish()?;
    Ok(verdicts)
}

/// Returns a rule's reason codes, empty where the row is kept.
fn judge(rule: Value, rows: &[Trajectory], problems: &[Problem], evaluation: &[Problem]) -> Vec<String> {
    let code = |verdict| if let RuleVerdict::Reject { code, .. } = verdict { code.to_string() } else { String::new() };
    verdicts(&rule, rows, problems, evaluation).unwrap().into_iter().map(code).collect()
}

fn refuses(rule: Value, word: &str) {
    let e = verdicts(&rule, &[with_question("a", "q")], &[], &[]).unwrap_err();
    assert!(e.to_string().contains(word), "{e}");
}

const CALL: &str = "<tool_call>2+3</tool_call>";

#[test]
fn format_requires_calls_results_and_an_answer() {
    let rows = [
        row("good", &[("user", "q"), ("assistant", CALL), ("tool", "5"), ("assistant", "5")]),
        row("no call", &[("user", "q"), ("assistant", "5")]),
        row("unclosed", &[("user", "q"), ("assistant", "<tool_call>2+3"), ("tool", "5"), ("assistant", "5")]),
        row("no result", &[("user", "q"), ("assistant", CALL), ("assistant", "5")]),
        row("no answer", &[("user", "q"), ("assistant", CALL), ("tool", "5")]),
        row("pasted", &[("user", "q"), ("tool", "5"), ("assistant", "5")]),
        row("empty", &[("user", "q"), ("assistant", " ")]),
    ];
    assert_eq!(
        judge(json!({"kind": "format"}), &rows, &[], &[]),
        ["", "", "broken_call", "no_result", "no_answer", "result_without_call", "no_answer"]
    );
}

#[test]
fn void_turns_are_found_anywhere() {
    let rows = [
        row("good", &[("user", "q"), ("assistant", CALL), ("tool", "5"), ("assistant", "5")]),
        row("thinks aloud", &[("user", "q"), ("assistant", "Let me think."), ("user", "Go on."), ("assistant", "5")]),
        row("silent", &[("user", "q"), ("assistant", CALL), ("tool", "5"), ("assistant", "")]),
    ];
    assert_eq!(judge(json!({"kind": "void_turn"}), &rows, &[], &[]), ["", "void", "void"]);
}

#[test]
fn answers_are_verified_against_the_problem() {
    let mut rows = [
        with_question("right", "q"),
        with_question("wrong", "q"),
        with_question("none", "q"),
        with_question("unknown", "q"),
    ];
    rows[0].answer = Some("5".into());
    rows[1].answer = Some("6".into());
    rows[3].answer = Some("5".into());
    let problem = |id: &str| Problem { id: format!("problem of {id}"), answer: "5".into(), ..Problem::default() };
    let problems = [problem("right"), problem("wrong"), problem("none")];
    assert_eq!(judge(json!({"kind": "answer"}), &rows, &problems, &[]), ["", "wrong", "no_answer", "unknown_problem"]);
    refuses(json!({"kind": "answer"}), "problems");
}

/// The rows have the form that `data/import` writes: the answer is the whole last message.
#[test]
fn answers_of_imported_conversations_are_read_by_the_environment() {
    let answered = |id: &str, text: &str| Trajectory {
        answer: Some(text.into()),
        ..row(id, &[("user", "q"), ("assistant", text)])
    };
    let rows = [
        answered("marked", "She has 72.\n#### 72"),
        answered("other", "She has 72.\n#### 71"),
        answered("bare", "72"),
        answered("void", "#### "),
    ];
    let problem = |id: &str| Problem { id: format!("problem of {id}"), answer: "72".into(), ..Problem::default() };
    let problems = ["marked", "other", "bare", "void"].map(problem);
    assert_eq!(judge(json!({"kind": "answer"}), &rows, &problems, &[]), ["", "wrong", "", "wrong"]);
    // An answer that was already parsed is used unchanged, although it differs from the last message.
    let read = Trajectory {
        answer: Some("72".into()),
        ..row("marked", &[("user", "q"), ("assistant", "no number\n#### none")])
    };
    assert_eq!(judge(json!({"kind": "answer"}), &[read], &problems, &[]), [""]);
}

#[test]
fn exact_duplicates_keep_the_first() {
    let rows = [with_question("a", "How many?"), with_question("b", "how  many"), with_question("c", "How many?")];
    assert_eq!(judge(json!({"kind": "exact_duplicates"}), &rows, &[], &[]), ["", "", "duplicate"]);
    assert_eq!(
        judge(json!({"kind": "exact_duplicates", "on": "question"}), &rows, &[], &[]),
        ["", "duplicate", "duplicate"]
    );
    // One program in two wordings is one problem.
    let stories = [
        with_question("a", "Ann has 3 figs. She buys 4."),
        with_question("b", "Bob owns 3 pens. He gets 4."),
        with_question("c", "Bob has 9."),
    ];
    let problem = |id: &str, canonical: &str| Problem {
        id: format!("problem of {id}"),
        canonical: canonical.into(),
        ..Problem::default()
    };
    let problems = [problem("a", "3;+4"), problem("b", "3;+4"), problem("c", "9")];
    let rule = json!({"kind": "exact_duplicates", "on": "question"});
    assert_eq!(judge(rule.clone(), &stories, &problems, &[]), ["", "duplicate", ""]);
    assert_eq!(judge(rule, &stories, &[], &[]), ["", "", ""]);
}

#[test]
fn near_duplicates_are_found_and_different_rows_are_kept() {
    let text = |from: usize, to: usize| (from..to).map(|i| format!("word{i}")).collect::<Vec<_>>().join(" ");
    // 100 words against 98 of them: 94 of 96 shingles are shared.
    let rows = [
        with_question("a", &text(0, 100)),
        with_question("b", &text(0, 98)),
        with_question("c", &text(50, 150)),
        with_question("d", "short"),
        with_question("e", "short"),
    ];
    assert_eq!(
        judge(json!({"kind": "near_duplicates", "on": "question"}), &rows, &[], &[]),
        ["", "near_duplicate", "", "", "near_duplicate"]
    );
    refuses(json!({"kind": "near_duplicates", "threshold": 0.0}), "threshold");
}

#[test]
fn decontamination_by_each_method() {
    let question = "A farmer has twelve hens and each hen lays five eggs in a week so how many eggs are there";
    let evaluation = [Problem {
        id: "test-1".into(),
        messages: vec![Message::new("user", question)],
        canonical: "t7|12|5".into(),
        ..Problem::default()
    }];
    let rows = [
        with_question("same words", &question.to_uppercase()),
        with_question("same form", "12 hens lay 5 eggs each; how many eggs?"),
        with_question(
            "long piece",
            "Yesterday a farmer has twelve hens and each hen lays five eggs in a week, he said, but that was long ago \
             and the hens have left",
        ),
        with_question(
            "half",
            "He has twelve hens and each hen lays five eggs in a basket of straw near the old red barn door",
        ),
        with_question("other", "Tom buys three pens for two coins each, how much does he pay in all for them today"),
    ];
    let problems = [Problem { id: "problem of same form".into(), canonical: "t7|12|5".into(), ..Problem::default() }];
    let only =
        |method: &str| judge(json!({"kind": "decontaminate", "methods": [method]}), &rows, &problems, &evaluation);
    assert_eq!(only("canonical"), ["same_problem", "same_problem", "", "", ""]);
    assert_eq!(only("ngram_13"), ["ngram_13", "", "ngram_13", "", ""]);
    assert_eq!(only("coverage_8"), ["coverage_8", "", "coverage_8", "", ""]);
    let third = judge(
        json!({"kind": "decontaminate", "methods": ["coverage_8"], "coverage": 0.3}),
        &rows,
        &problems,
        &evaluation,
    );
    assert_eq!(third[3], "coverage_8");
    refuses(json!({"kind": "decontaminate"}), "evaluation");
}

#[test]
fn all_problems_with_the_rules_are_reported_and_located() {
    let rules = json!([
        "format",
        {"kind": "near_duplicates", "bands": 0, "threshold": 2},
        {"kind": "decontaminate", "methods": [], "coverage": 0},
        "exact",
        {"kind": "expression"},
        {"kind": "diversity", "by": "problems", "max_per_group": 0},
        {"kind": "pass_rate", "min": 0.5, "max": -1},
        {"kind": "rank", "by": []},
    ]);
    let config = json!({"rules": rules, "environment": {"kind": "word-problems", "max_turns": 0}});
    let parts = parts();
    let filter = FilterStage { rules: parts.rules.clone(), envs: parts.envs.clone(), open_tokens: None };
    let problems = trainyard_api::erase(filter).validate(&config);
    let pointers: Vec<&str> = problems.iter().map(|p| p.pointer.as_str()).collect();
    let expected = [
        "/rules/1/threshold",
        "/rules/1/bands",
        "/rules/2/methods",
        "/rules/2/coverage",
        "/rules/3",
        "/rules/4",
        "/rules/5/by",
        "/rules/5/max_per_group",
        "/rules/6/max",
        "/rules/6/min",
        "/rules/7/by",
        "/environment/max_turns",
    ];
    assert_eq!(pointers, expected);
}

#[test]
fn inputs_that_rules_need_are_named_before_the_run() {
    let parts = parts();
    let filter = FilterStage { rules: parts.rules.clone(), envs: parts.envs.clone(), open_tokens: None };
    let problems = |config: Value, ports: &[(&str, usize)]| {
        let prepared = filter.prepare(config).unwrap();
        let inputs: WiredInputs = ports.iter().map(|(port, count)| ((*port).to_string(), *count)).collect();
        let shown = |it: OptionProblem| format!("{} {}; {}", it.pointer, it.message, it.help.unwrap_or_default());
        prepared.problems_with(&inputs).into_iter().map(shown).collect::<Vec<_>>()
    };
    let needs = |i: usize, rule: &str, port: &str| {
        let help = format!("wire the input `{port}`, or remove the rule from `rules`");
        format!("/rules/{i} the rule `{rule}` needs the input `{port}`; {help}")
    };
    let (answer, evaluation) = (needs(2, "answer", "problems"), needs(5, "decontaminate", "evaluation"));
    // The default rules have both.
    assert_eq!(problems(json!({}), &[("trajectories", 1)]), [answer.clone(), evaluation.clone()]);
    assert_eq!(problems(json!({}), &[("trajectories", 1), ("problems", 0), ("evaluation", 2)]), [answer]);
    assert_eq!(problems(json!({}), &[("trajectories", 1), ("problems", 1)]), [evaluation]);
    assert!(problems(json!({}), &[("problems", 1), ("evaluation", 1)]).is_empty());
    assert!(problems(json!({"rules": ["format"]}), &[("trajectories", 1)]).is_empty());
}

#[test]
fn expressions_see_the_columns() {
    let mut rows = [with_question("a", "q"), with_question("b", "q")];
    rows[1].tool_errors = 3;
    assert_eq!(judge(json!({"kind": "expression", "keep": "tool_errors < 2"}), &rows, &[], &[]), ["", "not_true"]);
}

#[test]
fn patterns_look_at_the_chosen_text() {
    let mut rows = [with_question("a", "please add 2 and 3"), with_question("b", "add 2 and 3")];
    rows[0].answer = Some("5".into());
    let judge = |more: Value| {
        let mut rule = json!({"kind": "pattern"});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        judge(rule, &rows, &[], &[])
    };
    assert_eq!(judge(json!({"pattern": "please", "of": "conversation"})), ["", "no_match"]);
    assert_eq!(judge(json!({"pattern": "please", "of": "conversation", "reject": true})), ["match", ""]);
    assert_eq!(judge(json!({"pattern": "^[0-9]$"})), ["", "no_match"], "the second row has no answer");
    refuses(json!({"kind": "pattern", "pattern": "("}), "not a regular expression");
}

/// Returns a rule whose program responds to every request with the rows that the shell code `work` sets.
fn program(work: &str) -> Value {
    let script = format!(
        r#"read -r hello; echo '{{"type":"ready","protocol":1}}'
        while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; {work}
        printf '{{"id":%s,"result":%s}}\n' "$id" "$rows"; done"#
    );
    json!({"kind": "process", "command": ["sh", "-c", script]})
}

#[test]
fn programs_keep_and_reject_rows() {
    let rows = [with_question("a", "q"), with_question("b", "q"), with_question("c", "q")];
    let verdicts = r#"rows='[{"keep":true},{"keep":false,"reason":"rude"},{"error":{"type":"E","message":"m"}}]'"#;
    let mut skipping = program(verdicts);
    skipping["on_error"] = json!("skip");
    let judged = verdicts_in_batches(&skipping, &rows, (&[], &[]), &[], 3).unwrap();
    let codes = judged.iter().map(|it| if let RuleVerdict::Reject { code, .. } = it { code } else { "" });
    assert_eq!(codes.collect::<Vec<_>>(), ["", "rejected", ""], "an exception keeps the row");
    refuses(program(r#"rows='[{"error":{"type":"ValueError","message":"bad"}}]'"#), "row `a`: ValueError: bad");
    refuses(program("rows='[{}]'"), "for a rule");
    refuses(program("exit 3"), "exited with status 3");
}

#[test]
fn rows_keep_their_verdicts_and_counts_add_up() {
    let mut rows =
        vec![with_question("a", "q"), with_question("b", "q"), row("c", &[("user", "q"), ("assistant", "")])];
    let before = Verdict { rule: "earlier".into(), keep: true, reason: "why".into() };
    rows[1].verdicts = vec![before.clone()];
    let mut rejected_before = with_question("d", "other");
    rejected_before.verdicts = vec![Verdict { keep: false, ..before.clone() }];
    rows.push(rejected_before.clone());
    let rules = [
        json!("format"),
        json!({"kind": "expression", "keep": "length(id) <= max(length(id))"}),
        json!("exact_duplicates"),
    ];
    let rules = rules.map(|rule| rules::registry::family().build(&rule, &()).unwrap());
    let Done { kept, rejected, counts } = filtered(&rules, &[&rows[..2], &rows[2..]]).unwrap();
    assert_eq!(counts.iter().map(|c| (c.judged, c.rejected())).collect::<Vec<_>>(), [(3, 1), (2, 0), (2, 1)]);
    let verdict = |rule: &str, keep: bool, reason: &str| Verdict { rule: rule.into(), keep, reason: reason.into() };
    let expected = Trajectory {
        verdicts: ["format", "expression", "exact_duplicates"].map(|rule| verdict(rule, true, "")).to_vec(),
        ..rows[0].clone()
    };
    assert_eq!(kept, [expected]);
    let own = [("format", true, ""), ("expression", true, ""), ("exact_duplicates", false, "duplicate: of a")];
    let own = own.map(|(rule, keep, reason)| verdict(rule, keep, reason));
    assert_eq!(rejected[0].verdicts, [vec![before], own.to_vec()].concat());
    assert_eq!(rejected[1].verdicts.len(), 1);
    assert_eq!(rejected[2], rejected_before);
    let report = report::report(4, 1, &counts, &UnreadableRows::default());
    report.validate().unwrap();
    assert_eq!(report.metrics["rejected_exact_duplicates"].value, 1.0);
    assert!(report::first_reasons(&counts).contains("format (no_answer): 1"));
    let table = |title: &str| {
        let table = report.tables.iter().find(|table| table.title.starts_with(title)).unwrap();
        serde_json::to_value(&table.rows).unwrap()
    };
    let first = json!([
        ["(an earlier stage)", 1.0, 0.25],
        ["format", 1.0, 0.25],
        ["expression", 0.0, 0.0],
        ["exact_duplicates", 1.0, 0.25],
        ["(no rule)", 1.0, 0.25],
    ]);
    assert_eq!(table("Rows by the rule"), first);
    let detail = "the last message is not an answer";
    let examples = json!([["format", "no_answer", "c", detail], ["exact_duplicates", "duplicate", "b", "of a"]]);
    assert_eq!(table("Examples"), examples);
}

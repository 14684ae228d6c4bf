//! Tests rows that rules edit, through all passes of a stage.

use super::tests::calculator;
use super::*;
use std::path::Path;
use trainyard_core::ErrorKind;
use trainyard_process::null_log;
use trainyard_tables::{Message, Trajectory, Verdict};

/// Rows of a finished stage, or its error.
pub(super) struct Done {
    pub kept: Vec<Trajectory>,
    pub rejected: Vec<Trajectory>,
    pub counts: Vec<Count>,
}

/// Judges files by rules as the stage does.
pub(super) fn filtered(rules: &[Box<dyn FilterRule>], files: &[&[Trajectory]]) -> Result<Done> {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..files.len()).map(|i| folder.path().join(format!("rows-{i}"))).collect();
    for (path, rows) in paths.iter().zip(files) {
        trainyard_tables::write_trajectories(path, rows).unwrap();
    }
    let outputs = ["kept", "rejected"].map(|name| folder.path().join(name));
    let counts = filter_files(rules, &paths, RowErrorPolicy::Fail, [&outputs[0], &outputs[1]])?;
    let [kept, rejected] = outputs.map(|path| trainyard_tables::read_trajectories(&path).unwrap());
    Ok(Done { kept, rejected, counts })
}

/// Judges the rows of files by rules as the stage does. Returns the counts.
pub(super) fn filter_files(
    rules: &[Box<dyn FilterRule>],
    files: &[PathBuf],
    on_error: RowErrorPolicy,
    outputs: [&Path; 2],
) -> Result<Vec<Count>> {
    let environment = calculator();
    let scratch = tempfile::tempdir().unwrap();
    let host = ToolHost::new(1);
    let context = RuleContext {
        problems: &BTreeMap::new(),
        evaluation: &[],
        rated: &[],
        environment: environment.as_ref(),
        scratch: scratch.path(),
        log: &null_log(),
        models: host.models(),
        host: &host,
        tokens: None,
    };
    let mut passes = FilterPasses::start(rules, RowFiles::open(files, on_error)?, &context)?;
    passes.run(outputs, |_| Ok(()))?;
    Ok(passes.verdicts().counts().to_vec())
}

pub(super) fn rules<const N: usize>(rules: [Value; N]) -> [Box<dyn FilterRule>; N] {
    rules.map(|rule| rules::registry::family().build(&rule, &()).unwrap())
}

fn row(id: &str, answer: &str) -> Trajectory {
    let messages = vec![Message::new("user", format!("Question of {id}")), Message::new("assistant", answer)];
    Trajectory { id: id.into(), messages, answer: Some(answer.into()), ..Trajectory::default() }
}

fn texts(rows: &[Trajectory]) -> Vec<(&str, &str, Option<&str>)> {
    rows.iter().map(|row| (row.id.as_str(), row.messages[1].content.as_str(), row.answer.as_deref())).collect()
}

/// The rule `near_duplicates` observes all rows before it judges, which begins another pass over the files.
#[test]
fn rules_after_an_edit_and_the_outputs_have_it() {
    let long = |mail: &str| format!("Write to {mail} because the answer to your question is five and not six");
    let rules = rules([
        json!("personal_data"),
        json!({"kind": "pattern", "pattern": "@", "reject": true}),
        json!("exact_duplicates"),
        json!({"kind": "near_duplicates", "ngram": 2}),
        json!({"kind": "pattern", "pattern": "nothing", "reject": true}),
    ]);
    let asked = |id: &str, answer: &str| {
        let mut row = row(id, answer);
        row.messages[0].content = "Whom do I ask?".into();
        row
    };
    let first = [row("clean", "Five."), asked("a", &long("bo@example.org"))];
    let second = [
        asked("b", &long("al@example.org")),
        row("c", &format!("nothing {}", long("bo@example.org"))),
        asked("d", &format!("{}!", long("eve@example.org"))),
    ];
    let done = filtered(&rules, &[&first, &second]).unwrap();
    let masked = long("[EMAIL]");
    assert_eq!(texts(&done.kept), [("clean", "Five.", Some("Five.")), ("a", &masked, Some(&masked))]);
    // Rejected rows are masked too.
    let rejected: Vec<(&str, &str)> =
        done.rejected.iter().map(|row| (row.id.as_str(), row.verdicts.last().unwrap().reason.as_str())).collect();
    assert_eq!(rejected[0], ("b", "duplicate: of a"), "the rows differ in the address only");
    assert_eq!(rejected[1].0, "c");
    assert!(rejected[2].0 == "d" && rejected[2].1.starts_with("near_duplicate"), "{rejected:?}");
    assert!(done.rejected.iter().all(|row| row.messages[1].content.contains("[EMAIL]")));
    let verdict = |rule: &str, reason: &str| Verdict { rule: rule.into(), keep: true, reason: reason.into() };
    let own = [
        ("personal_data", "personal_data: 1 email"),
        ("pattern", ""),
        ("exact_duplicates", ""),
        ("near_duplicates", ""),
        ("pattern", ""),
    ];
    assert_eq!(done.kept[1].verdicts, own.map(|(rule, reason)| verdict(rule, reason)));
    assert_eq!(done.counts[0].edited, Some(4));
    assert!(done.counts[1..].iter().all(|count| count.edited.is_none()));
    let report = report::report(5, 2, &done.counts, &UnreadableRows::default());
    report.validate().unwrap();
    assert_eq!(report.metrics["edited"].value, 4.0);
    assert_eq!(report.tables[0].columns, ["rule", "judged", "rejected", "edited"]);
    let plain = report::report(5, 2, &done.counts[1..], &UnreadableRows::default());
    assert!(!plain.metrics.contains_key("edited") && plain.tables[0].columns.len() == 3);
}

/// Rule that shortens messages, also where it must not.
struct Shortening {
    says_so: bool,
}

impl FilterRule for Shortening {
    fn kind(&self) -> &'static str {
        "shortening"
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn edits(&self) -> bool {
        self.says_so
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        Ok(each_row(|row| {
            let edit = RowEdit::of(row, row.messages[..1].to_vec());
            Ok(RuleVerdict::Edit { reason: "shorter".into(), edit })
        }))
    }
}

#[test]
fn rows_with_token_ids_are_never_edited() {
    let with_tokens = Trajectory { token_ids: vec![7], loss_mask: vec![true], turn: vec![0], ..row("t", "text") };
    let shortening = |says_so| -> [Box<dyn FilterRule>; 1] { [Box::new(Shortening { says_so })] };
    // The rule names `messages` only, but its edits have the answer too.
    let parsed = Trajectory { answer: Some("5".into()), ..row("b", "text") };
    let kept = filtered(&shortening(true), &[&[row("a", "text"), parsed]]).unwrap().kept;
    assert!(kept.iter().all(|row| row.messages.len() == 1));
    assert_eq!(kept[0].answer.as_deref(), Some("Question of a"));
    assert_eq!(kept[1].answer.as_deref(), Some("5"));
    let error = filtered(&shortening(true), &[&[row("a", "text"), with_tokens]]).err().unwrap();
    assert!(error.kind == ErrorKind::Bug && error.to_string().contains("token ids"), "{error}");
    let error = filtered(&shortening(false), &[&[row("a", "text")]]).err().unwrap();
    assert!(error.kind == ErrorKind::Bug && error.to_string().contains("shortening"), "{error}");
}

//! Tags of runs and notes about artifacts: given, shown, removed, and collected with what they annotate.

use crate::kit::Sandbox;
use serde_json::{Value, json};
use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

const FILE: &str = r#"
version: 1
name: words
params:
  word: {type: string, default: a}
stages:
  test: {uses: data/import, with: {source: questions.jsonl}}
  one:
    run: printf %s ${{ params.word }} > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
"#;

/// Creates a sandbox with two runs, and returns it with their ids, oldest first.
fn two_runs() -> (Sandbox, [String; 2]) {
    let s = Sandbox::new();
    let row =
        |n: u32| format!("{}\n", json!({"prompt": [{"role": "user", "content": format!("{n}?")}], "answer": "1"}));
    s.write("questions.jsonl", (0..3).map(row).collect::<String>());
    s.write("words.yaml", FILE);
    for word in ["word=a", "word=b"] {
        s.run(&["run", "words.yaml", "-p", word]).code(0);
    }
    let list = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    let run = |at: usize| list[at]["run"].as_str().unwrap().to_string();
    let runs = [run(1), run(0)];
    (s, runs)
}

fn json_of(s: &Sandbox, args: &[&str]) -> Value {
    s.run(&[args, &["--format", "json"]].concat()).code(0).json()
}

#[test]
fn a_tag_names_its_run_and_filters_the_list() {
    let (s, [older, newer]) = two_runs();
    let plain = s.run(&["runs", "list"]).code(0);
    assert!(!plain.stdout.contains("tags"), "{}", plain.stdout);
    s.run(&["runs", "tag", &older, "best", "paper-1", "--by", "ada"]).code(0).prints("best, paper-1");
    s.run(&["runs", "list"]).code(0).prints("tags").prints("best, paper-1");
    let filtered = json_of(&s, &["runs", "list", "--tag", "best"]);
    assert_eq!((filtered.as_array().unwrap().len(), &filtered[0]["run"]), (1, &json!(older)));
    assert_eq!(filtered[0]["tags"], json!(["best", "paper-1"]));
    s.run(&["runs", "list", "--tag", "none"]).code(0).prints("no run has the tag `none`");
    s.run(&["runs", "show", "best"]).code(0).prints(&format!("run {older} ")).prints("tags best, paper-1");
    assert_eq!(json_of(&s, &["runs", "show", "best"])["tags"], json!(["best", "paper-1"]));
    s.run(&["artifacts", "show", "best/one/o"]).code(0).prints(&older);

    assert_eq!(json_of(&s, &["runs", "tag", "latest", "best"])["changed"], json!(["best"]));
    assert_eq!(json_of(&s, &["runs", "tag", "latest", "best"])["changed"], json!([]));
    s.run(&["runs", "show", "best"]).code(2).says("2 runs have the tag `best`").says(&older).says(&newer);
    s.run(&["runs", "untag", &newer, "best"]).code(0).prints("has no tags");
    s.run(&["runs", "show", "best"]).code(0).prints(&older);
    s.run(&["runs", "show", "bset"]).code(2).says("no run is called `bset`");
}

#[test]
fn names_that_mean_other_runs_are_refused() {
    let (s, [older, newer]) = two_runs();
    let refused = |name: &str, why: &str| {
        s.run(&["runs", "tag", &older, "good", name]).code(2).says("cannot be a tag").says(why);
    };
    refused("latest", "already names a run");
    refused("latest-success", "already names a run");
    refused(&newer, "looks like a run id");
    refused("a b", "other characters");
    refused(&"x".repeat(65), "longer than 64 characters");
    let list = s.run(&["runs", "list"]).code(0);
    assert!(!list.stdout.contains("good"), "no tag is given if one is refused: {}", list.stdout);
}

#[test]
fn notes_are_shown_with_their_artifact_and_row() {
    let (s, _) = two_runs();
    let problems = "latest/test/problems";
    s.run(&["artifacts", "notes"]).code(0).prints("no notes");
    s.run(&["artifacts", "note", problems, "checked \u{1b}[2Jby hand", "--by", "ada"]).code(0).prints("added note 1");
    s.run(&["artifacts", "note", problems, "--row", "1", "the answer is 2"]).code(0).prints("row 1");
    s.run(&["artifacts", "note", problems, "--row", "3", "x"]).code(2).says("no row 3: it has 3 rows");
    let id = json_of(&s, &["artifacts", "show", problems, "--row", "2"])["id"].as_str().unwrap().to_string();
    s.run(&["artifacts", "note", problems, "--id", &id, "by its id"]).code(0).prints("row 2");
    s.run(&["artifacts", "note", problems, &"x".repeat(4_097)]).code(2).says("4097 bytes");

    let shown = s.run(&["artifacts", "show", problems]).code(0);
    shown.prints("notes:").prints("by ada").prints("row 1").prints(r"checked \u{1b}[2Jby hand");
    let row = s.run(&["artifacts", "show", problems, "--row", "1"]).code(0);
    let row = row.prints("the answer is 2");
    assert!(!row.stdout.contains("by hand") && !row.stdout.contains("by its id"), "{}", row.stdout);
    let found = s.run(&["artifacts", "show", problems, "--where", "answer = '1'"]).code(0);
    found.prints("the answer is 2").prints("by its id");
    s.run(&["artifacts", "list"]).code(0).prints("notes");
    let list = json_of(&s, &["artifacts", "list"]);
    let counts: Vec<&Value> = list.as_array().unwrap().iter().map(|row| &row["notes"]).collect();
    assert!(counts.contains(&&json!(3)) && counts.contains(&&json!(0)), "{list}");

    s.run(&["artifacts", "unnote", problems, "1"]).code(0).prints("removed note 1");
    s.run(&["artifacts", "unnote", problems, "1"]).code(2).says("has no note 1");
    let notes = json_of(&s, &["artifacts", "notes", problems]);
    let numbers: Vec<(&Value, &Value)> =
        notes.as_array().unwrap().iter().map(|note| (&note["number"], &note["row"])).collect();
    assert_eq!(numbers, [(&json!(2), &json!(1)), (&json!(3), &json!(2))]);
    s.run(&["artifacts", "notes"]).code(0).prints("/test/problems").prints("the answer is 2");
}

#[test]
fn tags_go_with_their_run_and_keep_nothing() {
    let (s, [older, newer]) = two_runs();
    s.run(&["runs", "tag", &older, "best"]).code(0);
    s.run(&["runs", "tag", &newer, "last"]).code(0);
    s.run(&["artifacts", "note", &format!("{older}/one/o"), "kept by nothing"]).code(0);
    for name in s.files(".trainyard").into_iter().filter(|name| !name.contains(&newer)) {
        let file = File::open(s.store().join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
    }
    let policy = ["artifacts", "gc", "--keep-last", "1", "--runs-older-than", "1d"];
    let planned = json_of(&s, &[&policy[..], &["--dry-run"]].concat());
    assert_eq!(planned["runs"], json!([older]), "{planned}");
    let removed = &json_of(&s, &policy)["removed"];
    assert_eq!((&removed["runs"], &removed["manifests"], &removed["annotations"]), (&json!(1), &json!(1), &json!(2)));
    s.run(&["runs", "show", "best"]).code(2).says("no run is called `best`");
    s.run(&["runs", "show", "last"]).code(0).prints(&newer);
    s.run(&["artifacts", "notes"]).code(0).prints("no notes");
}

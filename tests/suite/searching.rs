//! Searches of the messages of a run: hits, filters, bad input, and indexes that are missing, damaged or not kept.

use crate::kit::{Ran, Sandbox};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

const FILE: &str = r#"
version: 1
name: talks
stages:
  data:
    uses: data/import
    with: {source: talks.jsonl, format: openai}
  plain: {run: "echo x > ${{ outputs.o }}/x", outputs: {o: {kind: files}}}
"#;

fn talk(question: &str, answer: &str) -> String {
    let messages = [json!({"role": "user", "content": question}), json!({"role": "assistant", "content": answer})];
    format!("{}\n", json!({"messages": messages}))
}

fn talks() -> Sandbox {
    let s = Sandbox::new();
    let lines = [
        talk("How warm is it in Bergen?", "I am NOT sure,\n\n  but it may be 5 degrees."),
        talk("Not sure, are you?", "It is \u{1b}[31;1mGRÖSSER than 20."),
        talk("How warm is it in Lima?", "20 degrees."),
    ];
    s.write("talks.jsonl", lines.concat());
    s.write("talks.yaml", FILE);
    s.run(&["run", "talks.yaml"]).code(0);
    s
}

fn search(s: &Sandbox, args: &[&str]) -> Ran {
    s.run(&[&["search", "latest"], args].concat())
}

fn found(s: &Sandbox, args: &[&str]) -> Value {
    search(s, &[args, &["--format", "json"]].concat()).code(0).json()
}

/// Returns row and message of each hit.
fn places(s: &Sandbox, args: &[&str]) -> Vec<(u64, u64)> {
    let found = found(s, args);
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| (hit["row"].as_u64().unwrap(), hit["message"].as_u64().unwrap())).collect()
}

fn index(s: &Sandbox) -> std::path::PathBuf {
    let names = s.files(".trainyard/indexes/messages");
    assert_eq!(names.len(), 1, "{names:?}");
    s.store().join("indexes/messages").join(&names[0])
}

#[test]
fn hits_show_where_they_are_and_how_to_open_them() {
    let s = talks();
    let all = search(&s, &["not sure"]).code(0);
    let all = all.prints("message 1 (assistant), reward").prints("I am NOT sure, but it may be 5 degrees.");
    let all = all.prints("2 hits in 2 rows, of 6 messages in 3 rows of 1 artifact");
    all.says("building the index of the messages of").prints("(user)");
    let page = found(&s, &["NOT SURE"]);
    let hit = &page["hits"][0];
    assert_eq!((&hit["row"], &hit["message"], &hit["role"]), (&json!(0), &json!(1), &json!("assistant")), "{page}");
    assert_eq!(hit["excerpt"], json!({"before": "I am ", "found": "NOT sure", "after": ", but it may be 5 degrees."}));
    let command = hit["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    s.run(&words).code(0).prints("but it may be 5 degrees.");
    let quiet = search(&s, &["sure"]).code(0);
    assert!(!quiet.stderr.contains("index"), "{}", quiet.stderr);

    assert_eq!(places(&s, &["not sure", "--case"]), []);
    assert_eq!(places(&s, &["grösser"]), [(1, 1)]);
    assert_eq!(places(&s, &["[0-9]+ degrees", "--regex"]), [(0, 1), (2, 1)]);
    assert_eq!(places(&s, &["(?i)not.sure", "--regex", "--role", "user"]), [(1, 0)]);
    assert_eq!(places(&s, &["warm", "--limit", "1"]), [(0, 0)]);
    assert_eq!(found(&s, &["warm", "--limit", "1"])["matching_messages"], 2);
    assert_eq!(places(&s, &["warm", "--reward", "1000.."]), []);
    assert_eq!(places(&s, &["warm", "--step", "0.."]), [], "no update used the rows");
    assert_eq!(places(&s, &["warm", "--stage", "data"]).len(), 2);
    search(&s, &["grösser"]).code(0).prints(r"It is \u{1b}[31;1mGRÖSSER than 20.");
}

#[test]
fn bad_input_names_what_there_is() {
    let s = talks();
    search(&s, &[""]).code(2).says("the text to search for is empty");
    search(&s, &["a(b", "--regex"]).code(2).says("has a mistake at character 2: unclosed group");
    search(&s, &["warm", "--role", "robot"]).code(2).says("no message has the role `robot`").says("assistant, user");
    search(&s, &["warm", "--verdict", "dedup"]).code(2).says("no row has a verdict of the rule `dedup`");
    search(&s, &["warm", "--stage", "rl"]).code(2).says("no stage `rl`").says("data, plain");
    search(&s, &["warm", "--stage", "plain"]).code(2).says("has published no trajectories");
    search(&s, &["warm", "--reward", "2..1"]).code(2).says("is no range");
    search(&s, &["warm", "--regex", "--case"]).code(2).says("cannot be used with");
    s.run(&["search", "20200101", "warm"]).code(2).says("no run is called `20200101`");
}

#[test]
fn indexes_that_cannot_be_read_are_built_again() {
    let s = talks();
    assert_eq!(places(&s, &["lima"]), [(2, 0)]);
    let path = index(&s);
    let whole = std::fs::read(&path).unwrap();
    let mut older = whole.clone();
    older[8] = 0;
    for (bytes, why) in [(whole[..whole.len() / 2].to_vec(), "damaged or incomplete"), (older, "it has format 0")] {
        std::fs::write(&path, bytes).unwrap();
        search(&s, &["lima"]).code(0).prints("1 hit in 1 row").says("again").says(why);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "equal artifacts have equal indexes");
    }
    // A damaged block is noticed when it is read.
    let mut damaged = whole.clone();
    damaged[20] ^= 0x55;
    std::fs::write(&path, damaged).unwrap();
    search(&s, &["lima"]).code(0).prints("1 hit in 1 row").says("again: it is damaged");
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn an_index_is_kept_on_this_machine_if_the_store_denies_it() {
    let s = talks();
    // Even root cannot write into a folder whose place is taken by a file.
    std::fs::write(s.store().join("indexes"), "").unwrap();
    search(&s, &["lima"]).code(0).prints("1 hit in 1 row").says("the index is kept in").says("home/indexes");
    assert_eq!(s.files("home/indexes/messages").len(), 1);
    let quiet = search(&s, &["lima"]).code(0);
    assert!(!quiet.stderr.contains("index"), "{}", quiet.stderr);
}

#[test]
fn artifacts_without_their_objects_are_skipped() {
    let s = talks();
    let listed = s.run(&["artifacts", "show", "latest/data/trajectories", "--format", "json"]).code(0).json();
    let digest = listed["output"]["files"][0]["digest"].as_str().unwrap().to_string();
    let object = s.store().join("objects").join(&digest[..2]).join(&digest);
    std::fs::set_permissions(&object, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::remove_file(&object).unwrap();
    let page = search(&s, &["lima"]).code(0);
    page.prints("0 hits in 0 rows, of 0 messages in 0 rows of 0 artifacts").says("skipped").says("data/trajectories");
    let page = found(&s, &["lima"]);
    assert!(page["skipped"][0]["artifact"].as_str().unwrap().ends_with("/data/trajectories"), "{page}");
}

//! Read commands change nothing, damaged data hides no other data, and the output is readable by users and programs.

use crate::kit::{Sandbox, ran, wait_for};
use crate::processes::kill;
use serde_json::{Value, json};
use std::path::PathBuf;

const SMALL: &str = "version: 1\nname: small\nstages:\n  one: {uses: noop}\n";

const TALKS: &str = "version: 1\nname: talks\nstages:\n  say:\n    \
     run: echo First >&2; echo second >&2; printf 1 > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n";

/// Creates a sandbox with a workflow that has run this many times.
fn small(runs: usize) -> Sandbox {
    let s = Sandbox::new();
    s.write("small.yaml", SMALL);
    for _ in 0..runs {
        s.run(&["run", "small.yaml"]).code(0);
    }
    s
}

/// Returns the first batch of each run's journal, oldest run first.
fn journals(s: &Sandbox) -> Vec<PathBuf> {
    let files = s.files(".trainyard/runs").into_iter().filter(|f| f.ends_with("/journal/0000000000"));
    files.map(|f| s.store().join("runs").join(f)).collect()
}

#[test]
fn runs_with_damaged_or_newer_journals_are_listed_as_such_beside_the_others() {
    let s = small(3);
    let journals = journals(&s);
    assert_eq!(journals.len(), 3);
    std::fs::write(&journals[0], "{half").unwrap();
    let newer = std::fs::read_to_string(&journals[1]).unwrap().replacen("\"format\":1,", "\"format\":9,", 1);
    std::fs::write(&journals[1], newer).unwrap();
    let rows = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    let status: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["succeeded", "damaged", "damaged"], "{rows}");
    assert_eq!((&rows[0]["workflow"], &rows[0]["why"]), (&"small".into(), &Value::Null), "{rows}");
    for (row, why) in [(1_usize, "newer than this program"), (2, "its first line is not a header")] {
        assert!(rows[row]["why"].as_str().unwrap().contains(why), "{rows}");
        assert_eq!(rows[row]["stages"], Value::Null, "nothing is known of it: {rows}");
    }
    s.run(&["runs", "list"]).code(0).prints("succeeded").prints("damaged").prints("`trainyard runs show RUN`");
}

#[test]
fn looking_at_a_store_that_is_not_there_says_so_and_makes_nothing() {
    let s = Sandbox::new();
    let commands: &[&[&str]] = &[
        &["runs", "list"],
        &["runs", "show", "latest"],
        &["runs", "resume", "latest"],
        &["runs", "cancel", "latest"],
        &["logs", "latest"],
        &["explain", "latest", "one"],
        &["artifacts", "list"],
        &["artifacts", "show", "latest/one/o"],
        &["artifacts", "query", "latest/one/o", "select 1"],
        &["artifacts", "export", "latest/one/o", "out"],
        &["artifacts", "gc"],
        &["artifacts", "gc", "--dry-run"],
        &["artifacts", "pin", "latest/one/o"],
        &["artifacts", "unpin", "latest/one/o"],
        &["artifacts", "pins"],
    ];
    for &command in commands {
        s.run(&[command, &["--store", "typo"]].concat()).code(3).says("there is no store at typo").says("--store");
        s.run(command).code(3).says("there is no store at .trainyard");
    }
    assert!(!s.path("typo").exists() && !s.store().exists() && !s.path("out").exists());
}

#[test]
fn a_plan_takes_a_store_that_is_not_there_for_empty_and_makes_nothing() {
    let s = small(0);
    let plan = s.run(&["plan", "small.yaml", "--format", "json"]).code(0).json();
    assert_eq!(plan["stages"][0]["decision"], "run", "{plan}");
    assert!(!s.store().exists());
}

#[test]
fn a_wrong_url_is_the_callers_mistake_and_anything_else_a_store_out_of_reach() {
    let s = small(0);
    for url in ["gopher://x", "s3://", "s3:///prefix", "s3://bucket/a//b"] {
        for command in [&["runs", "list"][..], &["doctor"], &["run", "small.yaml"]] {
            s.run(&[command, &["--store", url]].concat()).code(2);
        }
    }
    // The error kind does not depend on a store's name.
    s.run(&["runs", "list", "--store", "scheme"]).code(3);
    s.write("file", "");
    s.run(&["runs", "list", "--store", "file"]).code(3).says("is not a folder");
    s.run(&["run", "small.yaml", "--store", "file/scheme"]).code(3).says("file/scheme");
}

#[test]
fn programs_can_read_what_people_can() {
    let s = Sandbox::new();
    let wrote = s.run(&["init", "new", "--format", "json"]).code(0).json();
    assert_eq!(wrote["wrote"], json!(["new/workflow.yaml", "new/trainyard.yaml", "new/schema.json"]));
    assert_eq!(wrote["next"], "cd new && trainyard run workflow.yaml");
    assert!(s.run(&["schema", "--format", "json"]).code(0).json().is_object());
    s.write("talks.yaml", TALKS);
    s.run(&["run", "talks.yaml"]).code(0);
    let lines = s.run(&["logs", "latest", "--format", "json"]).code(0).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for text in ["First", "second"] {
        let line = lines.iter().find(|line| line["text"] == text).unwrap_or_else(|| panic!("{text}: {lines:?}"));
        assert_eq!((&line["stage"], &line["attempt"], &line["level"]), (&json!("say"), &json!(1), &json!("info")));
        let at = line["at"].as_str().unwrap();
        assert!(at.starts_with("20") && at.ends_with('Z') && at.len() == 24, "RFC 3339 with milliseconds: {at}");
    }
    let exported = s.run(&["artifacts", "export", "latest/say/o", "out", "--format", "json"]).code(0).json();
    assert_eq!(exported, json!({"artifact": "latest/say/o", "files": ["out/x"], "rows": null}));
    let cancelled = s.run(&["runs", "cancel", "latest", "--format", "json"]).code(0).json();
    assert_eq!(cancelled["outcome"], "already_finished", "{cancelled}");
}

#[test]
fn logs_of_a_run_without_any_are_no_documents() {
    let s = small(1);
    assert_eq!(s.run(&["logs", "latest", "--format", "json"]).code(0).stdout, "");
    s.run(&["logs", "latest"]).code(0).prints("no log lines");
}

#[test]
fn an_explanation_keeps_the_case_of_paths() {
    let s = Sandbox::new();
    s.write("Rows.jsonl", "{\"question\": \n");
    s.write(
        "import.yaml",
        "version: 1\nname: import\nstages:\n  import:\n    uses: data/import\n    \
         with: {source: Rows.jsonl, format: gsm8k}\n",
    );
    s.run(&["run", "import.yaml"]).code(1);
    let explained = s.run(&["explain", "latest", "import", "--format", "json"]).code(0).json();
    let lines = explained["explanation"].as_array().unwrap().iter().map(|l| l.as_str().unwrap());
    let attempts: Vec<&str> = lines.filter(|l| l.starts_with("attempt 1 on ")).collect();
    assert_eq!(attempts.len(), 1, "{explained}");
    assert!(attempts[0].contains(": failed: ") && attempts[0].contains("Rows.jsonl"), "{explained}");
}

#[test]
fn the_store_stands_beside_the_site_file_else_in_the_working_directory() {
    let s = small(0);
    s.write("below/note", "");
    let below = |args: &[&str]| ran(s.command(args).current_dir(s.path("below")).output().unwrap());
    below(&["run", "../small.yaml"]).code(0);
    assert!(s.path("below/.trainyard").is_dir() && !s.store().exists());
    std::fs::remove_dir_all(s.path("below/.trainyard")).unwrap();

    s.write("trainyard.yaml", "version: 1\n");
    s.run(&["run", "small.yaml"]).code(0);
    let plan = below(&["plan", "../small.yaml", "--format", "json"]).code(0).json();
    assert_eq!(plan["stages"][0]["decision"], "hit", "{plan}");
    below(&["run", "../small.yaml"]).code(0);
    assert!(s.store().is_dir() && !s.path("below/.trainyard").exists());
}

#[test]
fn doctor_names_webhooks_without_an_address() {
    let s = Sandbox::new();
    let site = |pools: &str| {
        format!(
            "version: 1\npools: [{pools}]\nnotifications:\n  - {{webhook: env:HOOK_OF_SUITE}}\n  \
             - {{on: [succeeded], webhook: \"https://example.com/secret-path\"}}\n"
        )
    };
    s.write("trainyard.yaml", site("{name: far, executor: mainframe}, {name: here}"));
    s.run(&["doctor"]).code(2).says("unknown-executor");
    s.write("trainyard.yaml", site("{name: here}"));
    let told = s.run(&["doctor"]).code(2);
    assert!(!told.stdout.contains("secret-path"), "{}", told.stdout);
    told.prints("failed: the variable HOOK_OF_SUITE is not set").prints("succeeded to example.com");

    let hook = "https://hooks.example.com/secret-path";
    let told =
        ran(s.command(&["doctor", "--format", "json"]).env("HOOK_OF_SUITE", hook).output().unwrap()).code(0).json();
    let findings = told["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|f| f["what"] == "notification" && f["detail"] == "failed to hooks.example.com"),
        "{told}"
    );
    assert!(findings.iter().any(|f| f["what"] == "pool" && f["good"] == true), "{told}");
}

#[test]
fn nothing_runs_in_a_killed_run() {
    let s = Sandbox::new();
    let (holds, ends) = (s.path("holds"), s.path("ends"));
    let script = format!("touch {}; until test -e {}; do sleep 0.05; done", holds.display(), ends.display());
    let stages = format!("work:\n    run: {script}\n  next: {{uses: noop, needs: [work]}}");
    s.write("slow.yaml", format!("version: 1\nname: slow\nstages:\n  {stages}\n"));
    let mut running = s.spawn(&["run", "slow.yaml"]);
    wait_for("the stage", 30, || holds.exists());
    s.run(&["runs", "show", "latest"]).code(0).prints("running");
    kill(&mut running);
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let status: Vec<&str> = shown["stages"].as_array().unwrap().iter().map(|s| s["status"].as_str().unwrap()).collect();
    assert_eq!((&shown["status"], status), (&json!("unfinished"), vec!["interrupted", "pending"]), "{shown}");
    let page = s.run(&["runs", "show", "latest"]).code(0).prints("interrupted").prints("`trainyard runs resume ");
    assert!(!page.stdout.contains("running"), "{}", page.stdout);
    s.run(&["explain", "latest", "work"]).code(0).prints("the writer of this run is gone");
    let logs = s.run(&["logs", "latest"]).code(0);
    assert!(!logs.stderr.contains("work is running"), "{}", logs.stderr);
    s.write("ends", "");
    s.run(&["runs", "resume", "latest"]).code(0);
    let page = s.run(&["runs", "show", "latest"]).code(0).prints("succeeded");
    assert!(!page.stdout.contains("interrupted"), "{}", page.stdout);
}

#[test]
fn stages_outside_the_selection_are_not_asked_for() {
    let s = Sandbox::new();
    s.write("two.yaml", "version: 1\nname: two\nstages:\n  one: {uses: noop}\n  two: {uses: noop, needs: [one]}\n");
    s.run(&["run", "two.yaml", "--until", "one"]).code(0).prints(": 1 of 2 stages, 1 done, 1 not asked for\n");
    s.run(&["run", "two.yaml"]).code(0).prints(": 2 stages, ");
}

#[test]
fn a_stage_without_log_lines_has_its_own_reason() {
    let s = Sandbox::new();
    s.write("talks.yaml", format!("{TALKS}  quiet: {{uses: noop}}\n"));
    s.run(&["run", "talks.yaml"]).code(0);
    s.run(&["run", "talks.yaml", "--rerun", "quiet"]).code(0);
    let quiet = s.run(&["logs", "latest", "quiet"]).code(0).prints("no log lines: the stage wrote none");
    assert!(!quiet.stdout.contains("cache"), "{}", quiet.stdout);
    s.run(&["logs", "latest", "say"]).code(0).prints("1 of 1 stages came from the cache");
}

#[test]
fn the_store_may_be_named_before_the_command() {
    let s = small(1);
    let moved = s.path(".trainyard");
    std::fs::rename(&moved, s.path("other")).unwrap();
    s.run(&["--store", "other", "runs"]).code(0).prints("small");
    s.run(&["--store", "none", "runs", "list", "--store", "other"]).code(0).prints("small");
    s.run(&["--store", "other", "runs", "show", "latest"]).code(0).prints("succeeded");
    s.run(&["runs", "list"]).code(3).says("there is no store");
    s.run(&["--store", "other", "stages"]).code(2).says("does not use `--store`");
}

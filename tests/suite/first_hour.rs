//! First use: typos, words of other tools, runs that wait or fail, and inspection of results.

use crate::kit::{Ran, Sandbox, ran, wait_for};
use crate::progress::start_slow_run;
use serde_json::Value;
use trainyard_spec::vocabulary;

const SMALL: &str = "version: 1\nname: small\nstages:\n  one: {uses: noop}\n";
const TALKS: &str = r#"
version: 1
name: talks
stages:
  say:
    run: echo first >&2; printf 1 > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
"#;
const PROBLEMS: &str = r#"
version: 1
name: problems
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 4}}}}
"#;
const NIGHTLY: &str = r#"version: 1
name: nightly
schedule: {cron: "0 2 * * *"}
params: {day: {type: int, default: 1}}
stages:
  extract:
    run: date > ${{ outputs.o }}/x
    outputs: {o: files}
"#;
const FOREIGN: &str = r#"version: 1
name: x
stages:
  a:
    uses: rl
    depends_on: [b]
    with: {num_generations: 8, optimizer: {weight_decay: "0,01"}}
  b: {uses: eval}
  c: {uses: train/sft}
"#;

fn with(file: &str, text: &str) -> Sandbox {
    let s = Sandbox::new();
    s.write(file, text);
    s
}

/// Asserts that the output does not contain a text.
#[track_caller]
fn silent_about(ran: &Ran, text: &str) {
    assert!(!ran.stdout.contains(text) && !ran.stderr.contains(text), "{}\n{}", ran.stdout, ran.stderr);
}

/// Version, commit and features are one line, as in `trainyard 0.1.0 (1a2b3c4d, features: kubernetes)`.
#[test]
fn version_is_one_line_and_its_commit_enters_no_artifact() {
    let s = with("small.yaml", SMALL);
    let printed = s.run(&["--version"]).code(0).stdout;
    assert!(printed.starts_with("trainyard 0.1.0"), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let more = printed.trim().strip_prefix("trainyard 0.1.0").unwrap();
    let more = more.strip_prefix(" (").and_then(|more| more.strip_suffix(')')).unwrap_or(more);
    let commit = more.split(", ").next().unwrap();
    // A build outside a git checkout has no commit.
    if commit.is_empty() || commit.starts_with("features: ") {
        return;
    }
    assert!(commit.len() == 8 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{printed}");
    s.run(&["run", "small.yaml"]).code(0);
    let files = s.files(".trainyard");
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(s.path(".trainyard").join(&file)).unwrap();
        assert!(!bytes.windows(commit.len()).any(|part| part == commit.as_bytes()), "{file} holds {commit}");
    }
}

#[test]
fn a_mistyped_store_is_an_error_and_not_a_folder() {
    let s = with("small.yaml", SMALL);
    let help = "write s3://bucket/x; for a folder of this name, ./s3:/bucket/x";
    for command in ["run", "check", "plan"] {
        let told = s.run(&[command, "small.yaml", "--store", "s3:/bucket/x"]).code(2);
        told.says("\"s3:/bucket/x\" is not a store URL").says(help);
        s.run(&[command, "small.yaml", "--store", "S3://bucket"]).code(2).says("write s3://bucket");
        s.run(&[command, "small.yaml", "--store", "ftp://bucket"]).code(2).says("ftp://");
    }
    assert!(!s.path("s3:").exists());
    s.run(&["run", "small.yaml", "--store", "./s3:/bucket/x"]).code(0);
    assert!(s.path("s3:/bucket/x").is_dir());
    s.write("trainyard.yaml", "version: 1\nstore: s3//bucket\n");
    s.run(&["check", "small.yaml"]).code(2).says("trainyard.yaml:2:8").says("write s3://bucket");
}

#[test]
fn a_schedule_over_a_command_without_inputs_is_warned_about() {
    let s = with("nightly.yaml", NIGHTLY);
    s.run(&["check", "nightly.yaml"])
        .code(0)
        .says("`extract` has no inputs and will not run again")
        .says("`cache: false`");
    s.write("nightly.yaml", format!("{NIGHTLY}    cache: {{salt: \"${{{{ params.day }}}}\"}}\n"));
    silent_about(&s.run(&["check", "nightly.yaml"]).code(0), "will not run again");
    s.run(&["run", "nightly.yaml"]).code(0);
    s.run(&["run", "nightly.yaml"]).code(0).says("extract: hit");
    s.run(&["run", "nightly.yaml", "-p", "day=2"]).code(0).says("extract: done");
}

#[test]
fn a_trajectory_reads_as_a_conversation() {
    let s = with("problems.yaml", PROBLEMS);
    s.run(&["run", "problems.yaml"]).code(0);
    let row = |n: &str, format: &str| {
        s.run(&["artifacts", "show", "latest/data/demonstrations", "--row", n, "--format", format])
    };
    let told = row("0", "text").code(0);
    let told = told.prints("── user").prints("── assistant").prints("── end: answer").prints("reward 1");
    silent_about(&told, "token_ids");
    assert!(row("0", "json").code(0).json()["messages"].is_array());
    row("4", "text").code(2).says("has 4 rows").says("counted from 0");
    s.run(&["artifacts", "show", "latest/data/problems", "--row", "0"]).code(0).prints("answer: ").prints("level: 1");
    s.run(&["artifacts", "show", "latest/data/demonstrations"]).code(0).prints("text (JSON)").prints("rewards_answer");
}

#[test]
fn an_artifact_shows_its_rows_first_and_its_metrics_on_request() {
    let s = with("problems.yaml", PROBLEMS);
    s.run(&["run", "problems.yaml"]).code(0);
    let show =
        |more: &[&str]| s.run(&[&["artifacts", "show", "latest/data/demonstrations"][..], more].concat()).code(0);
    let short = show(&[]).prints(" metrics of the stage: `--metrics` lists them");
    let at = |text: &str| short.stdout.find(text).unwrap_or_else(|| panic!("{text}: {}", short.stdout));
    assert!(at("row 0\n") < at("4 rows, for SQL") && at("4 rows, for SQL") < at("made by run"), "{}", short.stdout);
    silent_about(&short, "demonstrations = 4");
    show(&["--metrics"]).prints("  demonstrations = 4");
}

#[test]
fn queries_say_what_is_wrong_in_words() {
    let s = with("problems.yaml", PROBLEMS);
    s.run(&["run", "problems.yaml"]).code(0);
    let query = |sql: &str| s.run(&["artifacts", "query", "latest/data/demonstrations", sql]).code(2);
    let told = query("select foo from self").says("there is no column `foo`").says("rewards_answer");
    silent_about(&told, "/tmp");
    silent_about(&query("select messages[1].content from self").says("JSON text"), "Ident");
}

#[test]
fn exports_write_what_their_name_says_and_mix_no_files() {
    let s = with("problems.yaml", PROBLEMS);
    s.run(&["run", "problems.yaml"]).code(0);
    let export = |to: &str, more: &[&str]| {
        s.run(&[&["artifacts", "export", "latest/data/demonstrations", to][..], more].concat())
    };
    export("all.parquet", &[]).code(0).prints("wrote 4 rows");
    assert!(s.path("all.parquet").is_file());
    export("rows.jsonl", &[]).code(0).prints("left out").prints("token_ids");
    let rows = s.read("rows.jsonl");
    let first: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert!(first.get("token_ids").is_none() && first.get("messages").is_some(), "{first}");
    export("few.jsonl", &["--columns", "id,token_ids"]).code(0);
    let few: Value = serde_json::from_str(s.read("few.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(few.as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "token_ids"], "{few}");
    export("none.jsonl", &["--columns", "idd"]).code(2).says("no column `idd`").says("problem_id");
    export("folder", &[]).code(0);
    export("folder", &[]).code(2).says("folder is not empty").says("--force");
    export("folder", &["--force"]).code(0);
    // A failed export leaves the file of the earlier one, and no other.
    let files = || std::fs::read_dir(s.path("folder")).unwrap().count();
    let (before, text) = (files(), s.read("few.jsonl"));
    export("few.jsonl", &["--as", "trl", "--form", "steps"]).code(1).says("few.jsonl was not written");
    export("folder/steps.jsonl", &["--as", "trl", "--form", "steps"]).code(1).says("no row has labels of turns");
    assert_eq!((files(), s.read("few.jsonl")), (before, text));
}

#[test]
fn a_run_ends_with_its_line_and_the_next_command() {
    let s = with("small.yaml", SMALL);
    let told = s.run(&["run", "small.yaml"]).code(0);
    let lines: Vec<&str> = told.stdout.trim_end().lines().collect();
    let [.., closing, next] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(closing.starts_with("run ") && closing.contains("succeeded in"), "{closing}");
    assert!(next.starts_with("next: trainyard "), "{next}");
}

#[test]
fn times_in_json_have_a_zone() {
    let s = with("talks.yaml", TALKS);
    s.run(&["run", "talks.yaml"]).code(0);
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let times =
        [&shown["created"], &shown["finished"]["at"], &shown["writer"]["last_seen"], &shown["stages"][0]["ended"]];
    for time in times.into_iter().chain([&shown["stages"][0]["attempts"][0]["started"]]) {
        let text = time.as_str().unwrap_or_else(|| panic!("{time} in {shown}"));
        assert!(text.len() == 24 && text.ends_with('Z') && text.contains('T'), "{text}");
    }
    assert_eq!(shown["finished"]["outcome"], "succeeded");
    let listed = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(listed[0]["created"], shown["created"]);
}

/// One CPU, so that a second run has to wait; both runs share the slots of a home.
#[test]
fn a_run_that_waits_says_for_whom_and_a_live_one_is_listed_as_running() {
    let s = Sandbox::new();
    let (mut slow, holds) = start_slow_run(&s);
    let listed = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(listed[0]["status"], "running", "{listed}");
    let run = listed[0]["run"].as_str().unwrap().to_string();

    let quick = s.spawn(&["run", "quick.yaml"]);
    let waiting = || {
        let listed = s.run(&["runs", "list", "--format", "json"]).json();
        let quick = listed.as_array().and_then(|rows| rows.iter().find(|r| r["workflow"] == "quick").cloned());
        quick.is_some_and(|row| {
            let shown = s.run(&["runs", "show", row["run"].as_str().unwrap(), "--format", "json"]).json();
            shown["stages"][0]["status"] == "waiting"
        })
    };
    wait_for("the second run to wait", 30, waiting);
    std::fs::remove_file(&holds).unwrap();
    assert!(slow.wait().unwrap().success());
    let told = ran(quick.wait_with_output().unwrap()).code(0);
    let told = told.says(&format!("held by run {run} (slow, work) for "));
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    assert_eq!((&shown["workflow"], &shown["status"]), (&"quick".into(), &"succeeded".into()), "{}", told.stderr);
    assert!(shown["stages"][0]["waited"].as_i64().unwrap() > 0, "{shown}");
    s.run(&["runs", "show", "latest"]).code(0).prints("waited");
}

#[test]
fn a_failed_command_shows_its_reason_and_its_last_lines() {
    let s = with(
        "bad.yaml",
        "version: 1\nname: bad\nstages:\n  one:\n    run: echo loading; echo no such table >&2; exit 3\n",
    );
    let told = s.run(&["run", "bad.yaml"]).code(1).says("exit code 3: no such table").says("  | loading");
    assert_eq!(told.stderr.matches("exit code 3").count(), 1, "{}", told.stderr);
    assert!(told.stdout.contains("next: trainyard logs "), "{}", told.stdout);
    let explained = s.run(&["explain", "latest", "one"]).code(0).stdout;
    assert_eq!(explained.matches("exit code 3").count(), 1, "{explained}");
}

#[test]
fn a_script_that_files_does_not_list_is_warned_about() {
    let text = "version: 1\nname: x\nstages:\n  a:\n    run: [python, scripts/transform.py]\n";
    let s = with("x.yaml", text);
    s.write("scripts/transform.py", "");
    s.run(&["check", "x.yaml"]).code(0).says("`scripts/transform.py` is not in `files`").says("x.yaml:5:19");
    for files in ["[scripts/transform.py]", "[scripts]"] {
        s.write("x.yaml", format!("{text}    files: {files}\n"));
        silent_about(&s.run(&["check", "x.yaml"]).code(0), "is not in `files`");
    }
}

#[test]
fn the_log_of_a_timeout_names_the_timeout() {
    let s = with(
        "slow.yaml",
        "version: 1\nname: slow\nstages:\n  slow:\n    run: sleep 20\n    timeout: 500ms\n    retry: {attempts: 1}\n",
    );
    s.run(&["run", "slow.yaml"]).code(1).says("timeout of");
    silent_about(&s.run(&["logs", "latest", "slow"]).code(0).prints("timeout"), "cancelled");
}

#[test]
fn doctor_compares_pools_with_the_machine() {
    let s = with("trainyard.yaml", "version: 1\npools: [{name: big, cpus: 4096}, {name: here}]\n");
    s.run(&["doctor"]).code(0).prints("warning").prints("this machine has only");
    let found = s.run(&["doctor", "--format", "json"]).code(0).json();
    let pools: Vec<_> = found["findings"].as_array().unwrap().iter().filter(|f| f["what"] == "pool").collect();
    assert_eq!((&pools[0]["warning"], &pools[1]["warning"]), (&Value::Bool(true), &Value::Null), "{found}");
}

#[test]
fn a_missing_file_is_missing_and_a_site_file_is_one() {
    let s = with("small.yaml", SMALL);
    for command in ["check", "run", "plan"] {
        let told = s.run(&[command, "first.yaml"]).code(2).says("first.yaml does not exist").says("trainyard init");
        silent_about(&told, "1:1");
    }
    s.write("trainyard.yaml", "version: 1\nsecrets: {A: env:A}\n");
    s.run(&["check", "small.yaml", "trainyard.yaml"]).code(0).prints("trainyard.yaml: a site file");
    s.write("other.yaml", "version: 1\npools: [{name: a, cpu: 1}]\n");
    s.run(&["check", "other.yaml"]).code(2).says("did you mean `cpus`?");
}

#[test]
fn hits_are_explained_and_their_logs_named() {
    let s = with("talks.yaml", TALKS);
    s.run(&["run", "talks.yaml"]).code(0);
    let first = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    s.run(&["run", "talks.yaml"]).code(0).says("say: hit");
    let made_by = format!("which run {} published from stage say at ", first["run"].as_str().unwrap());
    s.run(&["explain", "latest", "say"]).code(0).prints(&made_by);
    s.run(&["logs", "latest"]).code(0).prints("1 of 1 stages came from the cache");
}

#[test]
fn mistakes_of_a_file_are_json_where_json_is_asked() {
    let s = with("wrong.yaml", "version: 1\nname: wrong\nstages:\n  a: {uses: nop}\n");
    for command in ["run", "plan", "check"] {
        let told = s.run(&[command, "wrong.yaml", "--format", "json"]).code(2).json();
        assert_eq!((&told["errors"], &told["diagnostics"][0]["line"]), (&1.into(), &4.into()), "{command}: {told}");
    }
    s.write("trainyard.yaml", "version: 1\nstore: s3:/x\n");
    assert_eq!(s.run(&["check", "wrong.yaml", "--format", "json"]).code(2).json()["errors"], 1);
}

#[test]
fn missing_credentials_are_named_as_such() {
    let s = with("small.yaml", SMALL);
    let mut command = s.command(&["runs", "list", "--store", "s3://bucket"]);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"] {
        command.env_remove(name);
    }
    let closed = "http://127.0.0.1:9";
    command.env("AWS_METADATA_ENDPOINT", closed).env("AWS_ENDPOINT_URL", closed).env("AWS_ALLOW_HTTP", "true");
    let told = ran(command.output().unwrap()).code(3).says("no AWS credentials").says("set AWS_ACCESS_KEY_ID");
    silent_about(&told, "127.0.0.1");
    silent_about(&told, "meta-data");
}

#[test]
fn help_has_examples_and_shells_complete() {
    let s = Sandbox::new();
    s.run(&["--help"]).code(0).prints("Examples:").prints("trainyard init agent");
    s.run(&["explain", "--help"]).code(0).prints("Stage key");
    s.run(&["artifacts", "export", "--help"]).code(0).prints("RUN/STAGE/OUTPUT").prints(".parquet");
    for shell in ["bash", "zsh", "fish"] {
        s.run(&["completions", shell]).code(0).prints("TRAINYARD_COMPLETE");
    }
    let completed = s.command(&["--", "trainyard", "art"]).env("TRAINYARD_COMPLETE", "fish").output().unwrap();
    ran(completed).code(0).prints("artifacts");
}

#[test]
fn words_of_other_tools_are_understood() {
    let s = with("x.yaml", FOREIGN);
    let told = s.run(&["check", "x.yaml"]).code(2);
    told.says("write `needs: [stage]`")
        .says("write `rollout: {group_size: …}`")
        .says("decimals take a point: write `0.01`")
        .says("did you mean `evaluate`?")
        .says("did you mean `sft`?");
}

/// Every option that a foreign word is translated to exists in the stage of its first part.
#[test]
fn translated_options_exist() {
    let s = Sandbox::new();
    let kinds = s.run(&["stages", "--format", "json"]).code(0).json();
    let schema = |kind: &str| kinds.as_array().unwrap().iter().find(|k| k["name"] == kind).unwrap().clone();
    let rooms = [schema("rl"), schema("sft"), schema("evaluate")];
    let preference = [schema("preference")];
    let preference = vocabulary::PREFERENCE.iter().map(|row| (row, preference.as_slice()));
    for ((words, path, _), rooms) in vocabulary::OPTIONS.iter().map(|row| (row, rooms.as_slice())).chain(preference) {
        let first = path.split('.').next().unwrap();
        let is_option = |kind: &Value| kind["options"]["properties"].get(first).is_some();
        let is_input = |kind: &Value| kind["inputs"].as_array().unwrap().iter().any(|port| port["name"] == first);
        assert!(rooms.iter().any(|kind| is_option(kind) || is_input(kind)), "{words:?} → {path}");
    }
}

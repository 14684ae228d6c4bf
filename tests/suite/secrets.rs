//! Secrets stay secret: all outputs of runs are searched for a planted one.

use crate::kit::{Ran, Sandbox};
use std::path::Path;
use trainyard_lm::backend::conformance;
use trainyard_lm::backend::endpoint::InferenceServerKind;
use trainyard_testkit_lm::{MockModelServer, MockServerOptions};

/// Text that occurs nowhere by chance, with characters that JSON escapes.
const PLANTED: &str = "pl4nted\"s3cret\\wa1rus";
/// The planted text in JSON.
const ESCAPED: &str = "pl4nted\\\"s3cret\\\\wa1rus";
/// A secret of several lines.
const KEY: &str = "-----BEGIN KEY-----\nMIIw4lrusAAAA7\nqZw4lrusBBBB9\n-----END KEY-----\n";

const FILE: &str = r#"
version: 1
name: secrets
params:
  ending: {type: int, default: 0}
stages:
  talks:
    run: |
      echo "the token is $TOKEN"
      echo "the key is $KEY" >&2
      printf '{"name": "token", "value": %s}\n' "${#TOKEN}" >> "$TRAINYARD_METRICS"
      printf %s "${#TOKEN}" > ${{ outputs.length }}/n
      echo "cannot log in with $TOKEN" >&2
      exit ${{ params.ending }}
    secrets: [TOKEN, KEY]
    outputs: {length: files}
"#;

/// A stage that calls a server with a key; `URL` is the server's.
const CALLS: &str = r#"
version: 1
name: secrets
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 4}}}}
  base: {uses: model/init, with: {hidden_size: 32, layers: 2, heads: 2, intermediate_size: 48}}
  talks:
    uses: evaluate
    with:
      models: ["${{ stages.base.model }}"]
      problems: ${{ stages.data.problems }}
      samples: 0
      backend: {kind: endpoint, server: vllm, url: "URL", api_key: {secret: TOKEN}}
"#;

/// Creates a sandbox whose runs have both secrets.
fn planted() -> Sandbox {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "version: 1\nsecrets: {TOKEN: env:PLANTED_TOKEN, KEY: env:PLANTED_KEY}\n");
    s.write("secrets.yaml", FILE);
    s
}

fn run(s: &Sandbox, args: &[&str]) -> Ran {
    let mut command = s.command(args);
    command.env("PLANTED_TOKEN", PLANTED).env("PLANTED_KEY", KEY);
    crate::kit::ran(command.output().unwrap())
}

/// Returns the parts of the secrets that must not appear.
fn forbidden() -> Vec<&'static str> {
    KEY.lines().filter(|line| line.contains("w4lrus")).chain([PLANTED, ESCAPED, "wa1rus"]).collect()
}

#[track_caller]
fn clean(what: &str, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    for secret in forbidden() {
        assert!(!text.contains(secret), "{what} holds `{secret}`:\n{text}");
    }
}

/// Searches every file below a folder, and the file names.
#[track_caller]
fn clean_below(s: &Sandbox, folder: &str) -> usize {
    let files = s.files(folder);
    for file in &files {
        clean(file, file.as_bytes());
        clean(file, &std::fs::read(Path::new(&s.path(folder)).join(file)).unwrap());
    }
    files.len()
}

/// Checks the files of the run and the output of all commands about it.
#[track_caller]
fn nothing_holds_them(s: &Sandbox, ran: &Ran) {
    clean("what the run printed", ran.stdout.as_bytes());
    clean("what the run said", ran.stderr.as_bytes());
    for asked in [
        &["runs", "show", "latest"][..],
        &["runs", "show", "latest", "--format", "json"],
        &["logs", "latest"],
        &["logs", "latest", "--format", "json"],
        &["explain", "latest", "talks"],
        &["artifacts", "list", "--format", "json"],
    ] {
        let told = s.run(asked).code(0);
        clean(&asked.join(" "), told.stdout.as_bytes());
        clean(&asked.join(" "), told.stderr.as_bytes());
    }
    assert!(clean_below(s, ".trainyard") > 5, "the store was searched");
    assert!(clean_below(s, "home") > 0, "the user's folder was searched");
}

#[test]
fn a_command_that_prints_its_secrets_leaves_none_behind() {
    let s = planted();
    let ran = run(&s, &["run", "secrets.yaml"]).code(0);
    nothing_holds_them(&s, &ran);
    s.run(&["logs", "latest", "talks"]).code(0).prints("the token is [secret TOKEN]").prints("the key is [secret KEY]");
    s.run(&["artifacts", "export", "latest/talks/length", "out"]).code(0);
    assert_eq!(s.read("out/n"), PLANTED.len().to_string(), "the command had it");
}

#[test]
fn a_command_gets_only_the_secrets_that_it_names() {
    let s = planted();
    let stage = |more: &str| {
        format!("version: 1\nname: env\nstages:\n  talks:\n    cache: false\n    run: 'env | sort'\n{more}")
    };
    s.write("none.yaml", stage(""));
    let ran = run(&s, &["run", "none.yaml"]).code(0);
    nothing_holds_them(&s, &ran);
    let log = s.run(&["logs", "latest", "talks"]).code(0).prints("PATH=").stdout;
    assert!(!log.contains("PLANTED_") && !log.contains("[secret"), "{log}");
    s.write("one.yaml", stage("    secrets: [TOKEN]\n"));
    let ran = run(&s, &["run", "one.yaml"]).code(0);
    nothing_holds_them(&s, &ran);
    let log = s.run(&["logs", "latest", "talks"]).code(0).prints("TOKEN=[secret TOKEN]").stdout;
    assert!(!log.contains("PLANTED_KEY") && !log.contains("[secret KEY]"), "{log}");
}

#[test]
fn a_secret_in_base64_leaves_nothing_behind() {
    let s = planted();
    s.write(
        "encoded.yaml",
        "version: 1\nname: encoded\nstages:\n  talks:\n    cache: false\n    secrets: [TOKEN]\n    \
         run: 'for user in a ab abc; do printf %s \"$user:$TOKEN.\" | base64 | tr -d \"\\n\"; echo; done'\n",
    );
    let ran = run(&s, &["run", "encoded.yaml"]).code(0);
    nothing_holds_them(&s, &ran);
    let log = s.run(&["logs", "latest", "talks"]).code(0).stdout;
    assert_eq!(log.matches("[secret TOKEN]").count(), 3, "{log}");
}

#[test]
fn a_command_that_fails_with_a_secret_in_its_last_line_leaves_none_behind() {
    let s = planted();
    let ran = run(&s, &["run", "secrets.yaml", "-p", "ending=7"]).code(1);
    let ran = ran.says("ended with exit code 7: cannot log in with [secret TOKEN]");
    nothing_holds_them(&s, &ran);
    s.run(&["explain", "latest", "talks"]).code(0).prints("cannot log in with [secret TOKEN]");
}

#[test]
fn a_key_that_a_server_repeats_in_its_answer_is_left_nowhere() {
    let s = planted();
    let started = MockServerOptions { key: Some("another".into()), ..MockServerOptions::default() };
    let server = MockModelServer::start(InferenceServerKind::Vllm, &conformance::model(), started).unwrap();
    s.write("calls.yaml", CALLS.replace("URL", &server.url()));
    for level in ["info", "trace"] {
        let ran = run(&s, &["run", "calls.yaml", "--log", level]).code(1);
        let ran = ran.says("the key `[secret TOKEN]` is wrong").says("api_key: {secret: NAME}");
        nothing_holds_them(&s, &ran);
    }
    assert!(!server.seen().is_empty(), "the server was asked");
    s.write("trainyard.yaml", "version: 1\nsecrets: {TOKN: env:PLANTED_TOKEN}\n");
    run(&s, &["check", "calls.yaml"]).code(2).says("the site file provides no secret `TOKEN`").says("TOKN");
}

#[test]
fn diagnostics_of_every_level_hold_no_secret() {
    let s = planted();
    let ran = run(&s, &["run", "secrets.yaml", "-p", "ending=7", "--log", "trace"]).code(1);
    nothing_holds_them(&s, &ran);
}

#[test]
fn a_metric_that_names_a_secret_is_told_without_it() {
    let s = planted();
    let line = r#"echo "$TOKEN is no metric" >> "$TRAINYARD_METRICS""#;
    s.write(
        "metric.yaml",
        format!("version: 1\nname: metric\nstages:\n  talks:\n    run: |\n      {line}\n    secrets: [TOKEN]\n"),
    );
    let ran = run(&s, &["run", "metric.yaml"]).code(1);
    let ran = ran.says("`[secret TOKEN] is no metric` is not a metric");
    nothing_holds_them(&s, &ran);
}

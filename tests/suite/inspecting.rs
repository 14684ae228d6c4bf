//! From a result to its conversation: rows by id and by condition, models on one problem, joins of artifacts, the
//! newest run that succeeded, and names that shells complete.

use crate::kit::{Ran, Sandbox, ran};
use crate::weather;
use serde_json::{Value, json};
use trainyard_testkit::chat::MockChatServer;

const FILE: &str = r#"
version: 1
name: weather
stages:
  test: {uses: data/import, with: {source: questions.jsonl}}
  evaluate:
    uses: evaluate
    with:
      problems: ${{ stages.test.problems }}
      environment: {kind: math-problems, tools: []}
      samples: 0
      endpoints:
        base: {model: {endpoint: "URL", model: base, attempts: 1}}
        tuned: {model: {endpoint: "URL", model: tuned, attempts: 1}}
"#;

const RESULTS: &str = "latest/evaluate/results";
const TRAJECTORIES: &str = "latest/evaluate/trajectories";

fn evaluated() -> Sandbox {
    let served = MockChatServer::start(weather::respond);
    let s = Sandbox::new();
    weather::write_questions(&s);
    s.write("weather.yaml", FILE.replace("URL", served.url()));
    s.run(&["run", "weather.yaml"]).code(0);
    s
}

fn query(s: &Sandbox, artifact: &str, sql: &str) -> Value {
    s.run(&["artifacts", "query", artifact, sql, "--format", "json"]).code(0).json()["rows"].clone()
}

/// Returns the id of the problem with this expected answer.
fn problem(s: &Sandbox, expected: &str) -> String {
    let sql = format!("select id from self where answer = '{expected}'");
    query(s, "latest/test/problems", &sql)[0][0].as_str().unwrap().to_string()
}

#[test]
fn a_row_is_shown_by_the_id_in_the_results() {
    let s = evaluated();
    let sql = "select rollout from self where model = 'tuned' and not correct";
    let rollout = query(&s, RESULTS, sql)[0][0].as_str().unwrap().to_string();
    let show = |artifact: &str, args: &[&str]| s.run(&[&["artifacts", "show", artifact], args].concat());
    let by_id = show(TRAJECTORIES, &["--id", &rollout]).code(0);
    by_id.prints("It is 1 degree in Bergen.").prints("verdict wrong: answer 1; expected: 0; verifier: numeric");
    let row = show(TRAJECTORIES, &["--id", &rollout, "--format", "json"]).code(0).json();
    assert_eq!(row["id"], rollout.as_str());
    let result = show(RESULTS, &["--id", &rollout]).code(0).prints("model: tuned").prints("correct: false");
    result.prints(&format!("next: trainyard artifacts show {TRAJECTORIES} --id {rollout}"));
    let part = rollout.rsplit_once('/').unwrap().0;
    show(TRAJECTORIES, &["--id", part]).code(2).says("it has 6 rows").says(&format!("near ids: `{rollout}`"));

    show(TRAJECTORIES, &["--where", "correct = false"]).code(0).prints("2 of 6 rows match").prints("3 degrees in Lima");
    let found = show(TRAJECTORIES, &["--where", "correct", "--rows", "1", "--format", "json"]).code(0).json();
    assert_eq!((&found["matching"], &found["of"]), (&json!(4), &json!(6)), "{found}");
    let rows = found["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["cells"]["correct"]), (1, &json!(true)), "{found}");
    show(TRAJECTORIES, &["--where", "corect = false"]).code(2).says("corect").says("the columns are: id");
    show(TRAJECTORIES, &["--id", &rollout, "--row", "0"]).code(2);
}

fn cells(row: [&str; 4]) -> Vec<String> {
    row.map(str::to_string).to_vec()
}

#[test]
fn models_are_compared_on_one_problem_and_by_flips() {
    let s = evaluated();
    let (bergen, lima) = (problem(&s, "0"), problem(&s, "20"));
    let compare = |args: &[&str]| s.run(&[&["artifacts", "compare"], args].concat());
    let flips = compare(&[RESULTS, "--flips", "base", "tuned"]).code(0);
    let row = |id: &str| -> Vec<String> {
        let line = flips.stdout.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("{}", flips.stdout));
        line.split_whitespace().map(str::to_string).collect()
    };
    assert_eq!((row(&bergen), row(&lima)), (cells([&bergen, "0", "0", "1"]), cells([&lima, "20", "3", "20"])));
    let flips = flips.prints("base right, tuned wrong: 1\nproblem ").prints("base wrong, tuned right: 1\nproblem ");
    flips.prints("both right: 1").prints(&format!("compare {RESULTS} --problem {bergen}"));
    let lost = compare(&[RESULTS, "--flips", "base", "tuned", "--format", "json"]).code(0).json();
    assert_eq!((&lost["right_then_wrong"], &lost["both_wrong"]), (&json!([bergen]), &json!(0)), "{lost}");
    assert_eq!(lost["answers"][0], json!({"problem": bergen, "expected": "0", "a": "0", "b": "1"}), "{lost}");
    compare(&[RESULTS, "--flips", "base", "tunde"]).code(2).says("the models are `base`, `tuned`");

    let shown = compare(&[RESULTS, "--problem", &bergen]).code(0);
    assert_eq!(shown.stdout.matches("How warm is it in Bergen?").count(), 1, "{}", shown.stdout);
    let shown = shown.prints("expected: 0").prints("It is 0 degrees in Bergen.").prints("It is 1 degree in Bergen.");
    shown.prints("verdict right: answer 0").prints("verdict wrong: answer 1");
    let found = compare(&[RESULTS, "--problem", &bergen, "--format", "json"]).code(0).json();
    let verdicts: Vec<&Value> = found["models"].as_array().unwrap().iter().map(|model| &model["verdict"]).collect();
    assert_eq!(verdicts, ["right", "wrong"], "{found}");
    assert!(found["models"][0]["row"]["token_ids"].is_null(), "{found}");
    let position = found["position"].to_string();
    compare(&[TRAJECTORIES, "--problem", &position]).code(0).prints(&format!("problem {bergen} "));
    let wrong = &bergen[..bergen.len() - 1];
    compare(&[RESULTS, "--problem", wrong]).code(2).says("3 problems").says(&format!("near ids: `{bergen}`"));
    compare(&["latest/test/problems", "--problem", "0"]).code(2).says("neither results of an evaluation");
    compare(&[RESULTS]).code(2).says("--problem");
}

#[test]
fn models_of_several_artifacts_are_compared() {
    let s = evaluated();
    let digest = s.run(&["artifacts", "list", "--format", "json"]).code(0).json();
    let stage = digest.as_array().unwrap().iter().find(|row| row["artifact"].as_str().unwrap().ends_with("/results"));
    let other = format!("{}/trajectories", stage.unwrap()["stage_digest"].as_str().unwrap());
    let command = ["artifacts", "compare", RESULTS, &other, "--problem", "0", "--format", "json"];
    let found = s.run(&command).code(0).json();
    let names: Vec<&str> =
        found["models"].as_array().unwrap().iter().map(|model| model["model"].as_str().unwrap()).collect();
    let expected =
        [format!("{RESULTS} base"), format!("{RESULTS} tuned"), format!("{other} base"), format!("{other} tuned")];
    assert_eq!(names, expected);
}

#[test]
fn a_statement_joins_the_artifacts_that_it_names() {
    let s = evaluated();
    let join = "select p.answer as expected, s.correct as correct from latest/test/problems p \
                join self s on s.problem_id = p.id where s.model = 'tuned' order by 1";
    assert_eq!(query(&s, RESULTS, join), json!([["0", false], ["20", true], ["5", true]]));
    let braces = "select count(*) as n from {latest/test/problems} p, {latest/evaluate/trajectories} t \
                  where p.id = t.problem_id";
    assert_eq!(query(&s, RESULTS, braces), json!([[6]]));
    let wrong = |sql: &str| s.run(&["artifacts", "query", RESULTS, sql]).code(2);
    wrong("selct model from self").says("help").says("select level, avg(reward) from self group by level");
    let unknown = wrong("select p.absent from self s join latest/test/problems p on p.id = s.problem_id");
    unknown.says("p.absent").says("`self` has model, ").says("`latest/test/problems` has id, ");
    wrong("select 1 from latest/test/problem").says("its outputs are").says("problems");
    wrong("select 1 from absent").says("there is no table `absent`").says("named like artifacts");
}

#[test]
fn the_newest_run_that_succeeded_has_a_name() {
    let s = Sandbox::new();
    s.write("small.yaml", "version: 1\nname: small\nstages:\n  one: {run: \"exit 1\", outputs: {o: {kind: files}}}\n");
    s.run(&["run", "small.yaml"]).code(1);
    s.run(&["runs", "show", "latest-success"]).code(2).says("no run in the store").says("`latest`");
    let good = "version: 1\nname: good\nstages:\n  \
                one: {run: \"printf 1 > ${{ outputs.o }}/x\", outputs: {o: {kind: files}}}\n";
    s.write("good.yaml", good);
    s.run(&["run", "good.yaml"]).code(0);
    s.run(&["run", "small.yaml", "--new"]).code(1);
    let failed = s.run(&["artifacts", "show", "latest/one/o"]).code(2);
    failed.says("published nothing").says(" failed; `latest-success` names the newest run that succeeded");
    s.run(&["artifacts", "show", "latest/two/o"]).code(2).says("its stages are one; run ").says("`latest-success`");
    s.run(&["artifacts", "show", "latest-success/one/o"]).code(0).prints("x");
    s.run(&["runs", "show", "latest-success"]).code(0).prints("of good: succeeded");
    s.run(&["logs", "latest-success"]).code(0);
}

/// Returns the candidates for the last word of a command line, as bash requests them.
fn completed(s: &Sandbox, line: &[&str]) -> Vec<String> {
    let mut command = s.command(&[&["--", "trainyard"], line].concat());
    command
        .env("TRAINYARD_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", line.len().to_string())
        .env("_CLAP_IFS", "\n");
    let found: Ran = ran(command.output().unwrap()).code(0);
    assert_eq!(found.stderr, "", "{line:?}");
    found.stdout.lines().map(String::from).collect()
}

#[test]
fn shells_complete_names() {
    let s = evaluated();
    let list = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    let run = list[0]["run"].as_str().unwrap().to_string();
    assert_eq!(completed(&s, &["runs", "show", "l"]), ["latest", "latest-success"]);
    assert_eq!(completed(&s, &["runs", "show", &run[..6]]), [run.as_str()]);
    assert_eq!(completed(&s, &["logs", "latest", "e"]), ["evaluate"]);
    assert_eq!(completed(&s, &["artifacts", "show", "latest-"]), ["latest-success/"]);
    assert_eq!(completed(&s, &["artifacts", "show", "latest/test/p"]), ["latest/test/problems"]);
    let outputs = completed(&s, &["artifacts", "compare", "latest/evaluate/"]);
    assert!([RESULTS, TRAJECTORIES].iter().all(|name| outputs.iter().any(|output| output == name)), "{outputs:?}");
    assert_eq!(completed(&s, &["run", "weather.yaml", "--until", "t"]), ["test"]);
    assert_eq!(completed(&s, &["stages", "losses/clip_b"]), ["losses/clip_balanced"]);
    assert!(completed(&s, &["stages", "ev"]).contains(&"evaluate".to_string()));
    assert_eq!(completed(&s, &["recipes", "show", "simplet"]), ["simpletir"]);
    assert!(completed(&s, &["artifacts", "sho"]).contains(&"show".to_string()));
}

#[test]
fn completion_without_a_store_is_silent() {
    let s = Sandbox::new();
    assert_eq!(completed(&s, &["logs", "latest", "e"]), Vec::<String>::new());
    assert_eq!(completed(&s, &["artifacts", "show", "latest/"]), Vec::<String>::new());
    s.write("trainyard.yaml", "version: 1\nstoer: x\n");
    assert_eq!(completed(&s, &["runs", "show", "l"]), ["latest", "latest-success"]);
    assert!(!s.store().exists());
    s.run(&["completions", "bash"]).code(0).prints("TRAINYARD_COMPLETE");
}

//! Models served over endpoints in a run: after any crash, no response that arrived is paid for again.

use crate::kit::{Sandbox, wait_for};
use crate::processes::kill;
use crate::rewarded;
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_testkit::chat::{MockChatServer, MockResponse, says};

const FILE: &str = r#"
version: 1
name: judged
stages:
  chats:
    uses: data/import
    with: {source: chats.jsonl}
  polite:
    uses: data/filter
    with:
      trajectories: ["${{ stages.chats.trajectories }}"]
      rules:
        - kind: judge
          rubric: Keep what is polite.
          model: {endpoint: "URL", model: m, concurrency: 1, attempts: 1, price: {input: 0, output: 2}, MORE}
"#;

const ROWS: usize = 8;

/// Creates a sandbox with conversations, of which every second one contains "please".
fn sandbox(url: &str, more: &str) -> Sandbox {
    let s = Sandbox::new();
    let chat = |n: usize| {
        let text = if n.is_multiple_of(2) { format!("please do {n}") } else { format!("do {n}") };
        let messages = json!([{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}]);
        json!({"messages": messages})
    };
    s.write_rows("chats.jsonl", (0..ROWS).map(chat));
    s.write("judged.yaml", FILE.replace("URL", url).replace(", MORE", more));
    s
}

fn judge(body: &Value, _: usize) -> MockResponse {
    let polite = body["messages"][0]["content"].as_str().unwrap().contains("please");
    says(body, &json!({"reason": if polite { "it asks" } else { "it orders" }, "keep": polite}).to_string())
}

#[test]
fn verdicts_have_reasons_and_a_run_that_is_repeated_pays_nothing() {
    let served = MockChatServer::start(judge);
    let s = sandbox(served.url(), "");
    s.run(&["run", "judged.yaml"]).code(0).says("kept 4");
    assert_eq!(served.requests(), ROWS);
    s.run(&["artifacts", "show", "latest/polite/rejected", "--row", "0"]).code(0).prints("it orders");
    s.run(&["artifacts", "show", "latest/polite/kept", "--row", "0"]).code(0).prints("it asks");
    let metrics = "SELECT count(*) AS n, sum(prompt_tokens) AS prompts FROM self";
    s.run(&["artifacts", "query", "latest/polite/requests", metrics]).code(0).prints("80");
    let metrics = s.metrics("polite");
    assert_eq!((&metrics["requests"], &metrics["completion_tokens"]), (&json!(8.0), &json!(40.0)), "{metrics}");

    s.run(&["run", "judged.yaml", "--rerun", "polite"]).code(0).says("kept 4");
    let rules = ("        - kind: judge", "        - {kind: void_turn}\n        - kind: judge");
    let other = s.read("judged.yaml").replace(rules.0, rules.1);
    s.write("other.yaml", other.replace("name: judged", "name: other"));
    s.run(&["run", "other.yaml"]).code(0).says("kept 4");
    assert_eq!(served.requests(), ROWS, "neither another attempt nor another stage asks again");
    s.write("judged.yaml", s.read("judged.yaml").replace("what is polite", "what is very polite"));
    s.run(&["run", "judged.yaml"]).code(0);
    assert_eq!(served.requests(), 2 * ROWS, "another question is another request");
}

#[test]
fn a_run_that_was_killed_pays_for_no_row_twice() {
    // The sixth request gets no response.
    let served = MockChatServer::start(move |body, number| {
        if number == 5 {
            std::thread::sleep(Duration::from_secs(600));
        }
        judge(body, number)
    });
    let s = sandbox(served.url(), "");
    let mut child = s.spawn(&["run", "judged.yaml"]);
    wait_for("the sixth request", 60, || served.requests() == 6);
    kill(&mut child);
    s.run(&["run", "judged.yaml"]).code(0).says("kept 4");
    assert_eq!(served.requests(), ROWS + 1, "only what was in flight is asked again");
}

#[test]
fn the_limit_on_spend_ends_the_stage_and_a_higher_one_goes_on() {
    let served = MockChatServer::start(judge);
    // A response costs 10 millionths; before it arrives it may cost 100.
    let s = sandbox(served.url(), ", max_tokens: 50, spend_limit: 0.000135");
    s.run(&["run", "judged.yaml"]).code(1).says("spend_limit").says("not paid for again");
    assert_eq!(served.requests(), 4, "with a fifth it could be 140");
    s.write("judged.yaml", s.read("judged.yaml").replace("spend_limit: 0.000135", "spend_limit: 1"));
    s.run(&["run", "judged.yaml"]).code(0).says("kept 4");
    assert_eq!(served.requests(), ROWS);
}

#[test]
fn an_endpoint_that_is_another_or_away_is_named() {
    let served = MockChatServer::start(|body, number| match judge(body, number) {
        MockResponse::Json(mut answer) => {
            answer["model"] = json!("other");
            MockResponse::Json(answer)
        }
        other => other,
    });
    let s = sandbox(served.url(), "");
    s.run(&["run", "judged.yaml"])
        .code(1)
        .says("model `m`, but the server responded as `other`")
        .says("served_as: [other]");
    let away = sandbox("http://127.0.0.1:1", "");
    away.run(&["run", "judged.yaml"]).code(1).says("cannot be reached").says("model `m` at http://127.0.0.1:1");
    let wrong = sandbox("nowhere", ", spend_limit: 1, temperature: -1");
    wrong.run(&["check", "judged.yaml"]).code(2).says("nowhere").says("-1");
}

const LESSON: &str = r#"
version: 1
name: lesson
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      environment: {kind: countdown}
      splits: {demonstrations: {levels: {1: 4}}, test: {levels: {1: 6}}}
  tested: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [test]}}
  taught:
    uses: data/synthesize
    with:
      method: teacher
      environment: {kind: countdown}
      problems: ["${{ stages.tested.problems }}"]
      teacher: {model: {endpoint: "URL", model: m, attempts: 1, temperature: 0.5}, samples: 2}
  evaluate:
    uses: evaluate
    with:
      problems: ${{ stages.tested.problems }}
      environment: {kind: countdown}
      samples: 2
      endpoints: {teacher: {model: {endpoint: "URL", model: m, attempts: 1, price: {input: 1, output: 1}}}}
"#;

/// Returns a model that knows the answer to every second question, and to none at a temperature above 0.7.
fn pupil(answers: Vec<(String, String)>) -> impl Fn(&Value, usize) -> MockResponse {
    move |body, _| {
        let asked = body["messages"].to_string();
        let known = answers.iter().position(|(question, _)| asked.contains(&json!(question).to_string()));
        match known {
            Some(at) if at.is_multiple_of(2) && body["temperature"].as_f64().unwrap() < 0.7 => {
                says(body, &answers[at].1)
            }
            _ => says(body, "I do not know."),
        }
    }
}

#[test]
fn a_teacher_demonstrates_what_it_solves_and_is_evaluated_by_its_words() {
    let s = Sandbox::new();
    let first = LESSON.split("  taught:").next().unwrap();
    s.write("data.yaml", first);
    s.run(&["run", "data.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/tested/problems", "problems.parquet"]).code(0);
    let problems = trainyard_tables::read_problems(&s.path("problems.parquet")).unwrap();
    let answers = problems.iter().map(|p| (p.question().to_string(), p.answer.clone())).collect();
    let served = MockChatServer::start(pupil(answers));
    s.write("lesson.yaml", LESSON.replace("URL", served.url()));
    s.run(&["run", "lesson.yaml"]).code(0);
    let taught = s.metrics("taught");
    assert_eq!((&taught["problems_solved"], &taught["demonstrations"]), (&json!(3.0), &json!(3.0)), "{taught}");
    assert_eq!(taught["teacher_episodes"], json!(9.0), "what is solved is not played again: {taught}");
    let evaluated = s.metrics("evaluate");
    let names = ["accuracy_teacher", "avg_at_2_teacher", "requests_teacher", "infrastructure_failures"];
    let found = names.map(|name| &evaluated[name]);
    assert_eq!(found, [&json!(0.5), &json!(0.0), &json!(18.0), &json!(0.0)], "{evaluated}");
    assert!(evaluated["cost_teacher"].as_f64().unwrap() > 0.0);
    s.run(&["artifacts", "export", "latest/evaluate/trajectories", "rows.parquet"]).code(0);
    let rows = trainyard_tables::read_trajectories(&s.path("rows.parquet")).unwrap();
    assert!(rows.len() == 18 && rows.iter().all(|row| row.token_ids.is_empty() && row.messages.len() >= 2));
    let asked = served.requests();
    s.run(&["run", "lesson.yaml", "--rerun", "taught", "--rerun", "evaluate"]).code(0);
    assert_eq!(served.requests(), asked);
}

#[test]
fn mistakes_about_models_are_found_before_the_run() {
    let s = Sandbox::new();
    s.write("lesson.yaml", LESSON.replace("URL", "http://h").replace("      teacher: {model", "      mistakes: 0\n#"));
    s.run(&["check", "lesson.yaml"]).code(2).says("the method `teacher` needs a model");
    s.write("lesson.yaml", LESSON.replace("URL", "h"));
    s.run(&["check", "lesson.yaml"]).code(2).says("`h` is not a URL");
    s.write("lesson.yaml", LESSON.replace("URL", "http://h").replace("{teacher: {model", "{Teacher: {model"));
    s.run(&["check", "lesson.yaml"]).code(2).says("`Teacher` cannot be part of a metric name");
    let keyed = LESSON.replace("attempts: 1, temp", "api_key: {secret: NONE}, temp");
    s.write("lesson.yaml", keyed.replace("URL", "http://h"));
    s.run(&["check", "lesson.yaml"]).code(2).says("NONE");
}

const REWARDS: &str = r#"[{kind: judged, rubric: Be brief., points: 4, model: {endpoint: "URL", model: m}}]"#;

#[test]
fn a_judge_gives_the_points_that_a_policy_practices_for() {
    let served = MockChatServer::start(|body, _| {
        let points = body["messages"][0]["content"].as_str().unwrap().len() % 5;
        says(body, &json!({"reason": "its length", "points": points}).to_string())
    });
    let s = Sandbox::new();
    s.write("rl.yaml", rewarded::workflow(&REWARDS.replace("URL", served.url())));
    s.run(&["run", "rl.yaml"]).code(0);
    let first = s.metrics("rl");
    let asked = served.requests();
    let judged = first["rewards.judged.requests"].as_f64().unwrap();
    assert!((1.0..=16.0).contains(&judged) && asked as f64 <= judged, "{asked} asked, {judged} judged");
    assert!((0.0..=1.0).contains(&first["rewards.judged"].as_f64().unwrap()), "{first}");
    s.run(&["run", "rl.yaml", "--rerun", "rl"]).code(0);
    assert_eq!((served.requests(), s.metrics("rl")), (asked, first), "the same run, and nothing is paid for");
}

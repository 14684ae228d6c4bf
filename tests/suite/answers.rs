//! Answers in sentences are compared as a reader would compare them, and every comparison can be seen afterwards.

use crate::kit::Sandbox;
use serde_json::{Value, json};
use trainyard_testkit::chat::{MockChatServer, MockResponse, says};

/// The user's questions, expected answers, and what the model says.
const TALKS: [(&str, &str, &str); 4] = [
    ("How warm is it in Bergen?", "0", "It is 0 degrees in Bergen."),
    ("How warm is it in Lima?", "20", "It is 3 or 20 degrees in Lima."),
    ("How warm is it in Oslo?", "5", "It is 7 degrees in Oslo."),
    ("How warm is it in Quito?", "12", "From 10 and 2 follows:\nAnswer: 12 degrees"),
];

const FILE: &str = r#"
version: 1
name: weather
stages:
  test: {uses: data/import, with: {source: questions.jsonl}}
  evaluate:
    uses: evaluate
    with:
      problems: ${{ stages.test.problems }}
      environment: {kind: math-problems, tools: [], EXTRACT}
      samples: 0
      endpoints: {talker: {model: {endpoint: "URL", model: m, attempts: 1}}}
  report: {uses: report, with: {title: Weather, reports: ["${{ stages.evaluate.report }}"]}}
"#;

fn talker(body: &Value, _: usize) -> MockResponse {
    let asked = body["messages"].to_string();
    let said = TALKS.iter().find(|(question, ..)| asked.contains(question)).map_or("?", |talk| talk.2);
    says(body, said)
}

fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    let row = |(question, answer, _): (&str, &str, &str)| {
        let prompt = json!([{"role": "user", "content": question}]);
        json!({"prompt": prompt, "answer": answer})
    };
    s.write_rows("questions.jsonl", TALKS.map(row));
    s
}

/// Returns the rows of the evaluation as text and as JSON.
fn rows(s: &Sandbox) -> Vec<(String, Value)> {
    let show = |row: usize, format: &[&str]| {
        let row = row.to_string();
        let command = [&["artifacts", "show", "latest/evaluate/trajectories", "--row", row.as_str()], format].concat();
        s.run(&command).code(0)
    };
    (0..TALKS.len()).map(|row| (show(row, &[]).stdout, show(row, &["--format", "json"]).json())).collect()
}

#[test]
fn answers_in_sentences_are_read_and_what_was_compared_is_kept() {
    let served = MockChatServer::start(talker);
    let s = sandbox();
    s.write("weather.yaml", FILE.replace("URL", served.url()).replace(", EXTRACT", ""));
    s.run(&["run", "weather.yaml"]).code(0);
    let found = s.metrics("evaluate");
    let names = ["accuracy", "unreadable_answers", "unreadable_answers_talker"];
    assert_eq!(names.map(|name| &found[name]), [&json!(0.5), &json!(0.25), &json!(0.25)], "{found}");

    let rows = rows(&s);
    let of = |expected: &str| rows.iter().find(|(_, row)| row["expected"] == expected).unwrap();
    let (bergen, row) = of("0");
    assert!(bergen.contains("verdict right: answer 0; expected: 0; verifier: numeric"), "{bergen}");
    assert_eq!((&row["extracted"], &row["correct"]), (&json!("0"), &json!(true)), "{row}");
    let (lima, row) = of("20");
    assert!(lima.contains("verdict unreadable (different numbers: 3, 20)"), "{lima}");
    assert_eq!((&row["extracted"], &row["correct"]), (&Value::Null, &json!(false)), "{row}");
    let (oslo, _) = of("5");
    assert!(oslo.contains("verdict wrong: answer 7; expected: 5; verifier: numeric"), "{oslo}");
    assert!(of("12").0.contains("verdict right: "), "{}", of("12").0);

    let sql = "SELECT answer, verifier FROM self WHERE unreadable IS NOT NULL";
    s.run(&["artifacts", "query", "latest/evaluate/results", sql]).code(0).prints("3 or 20").prints("numeric");
    let warning = "25% of the episodes of model `talker` have no readable answer";
    s.run(&["logs", "latest", "evaluate"]).code(0).prints(warning);
    s.run(&["artifacts", "export", "latest/report/report", "page"]).code(0);
    let page = std::fs::read_to_string(s.path("page/report.md")).unwrap();
    assert!(page.contains("Sample episodes") && page.contains("different numbers: 3, 20"), "{page}");
}

#[test]
fn option_extract_decides_which_answers_are_read() {
    let served = MockChatServer::start(talker);
    let s = sandbox();
    for (option, accuracy, unreadable) in [("last_number", 0.75, 0.0), ("none", 0.25, 0.75)] {
        let file = FILE.replace("URL", served.url()).replace("EXTRACT", &format!("extract: {option}"));
        s.write("weather.yaml", file);
        s.run(&["run", "weather.yaml"]).code(0);
        let found = s.metrics("evaluate");
        let values = [&found["accuracy"], &found["unreadable_answers"]];
        assert_eq!(values, [&json!(accuracy), &json!(unreadable)], "{option}: {found}");
    }
    s.write("weather.yaml", FILE.replace("EXTRACT", "extract: guess"));
    s.run(&["check", "weather.yaml"]).code(2).says("last_number");
}

//! Questions about the weather, and two models that answer them.

use crate::kit::Sandbox;
use serde_json::{Value, json};
use trainyard_testkit::chat::{MockResponse, says};

/// Questions, expected answers, and the answers of the models `base` and `tuned`.
const QUESTIONS: [(&str, &str, &str, &str); 3] = [
    ("How warm is it in Bergen?", "0", "It is 0 degrees in Bergen.", "It is 1 degree in Bergen."),
    ("How warm is it in Lima?", "20", "It is 3 degrees in Lima.", "It is 20 degrees in Lima."),
    ("How warm is it in Oslo?", "5", "It is 5 degrees in Oslo.", "It is 5 degrees, in Oslo."),
];

/// Writes the questions with their expected answers as `questions.jsonl`.
pub fn write_questions(s: &Sandbox) {
    let row = |(text, answer, _, _): (&str, &str, &str, &str)| {
        let prompt = json!([{"role": "user", "content": text}]);
        json!({"prompt": prompt, "answer": answer})
    };
    s.write_rows("questions.jsonl", QUESTIONS.map(row));
}

/// Answers a question as the model of the request.
pub fn respond(body: &Value, _: usize) -> MockResponse {
    let asked = body["messages"].to_string();
    let found = QUESTIONS.iter().find(|(question, ..)| asked.contains(question));
    says(body, found.map_or("?", |(_, _, base, tuned)| if body["model"] == "base" { base } else { tuned }))
}

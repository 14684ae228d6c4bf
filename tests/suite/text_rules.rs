//! Rules of `data/filter` about texts: language, repetition and symbols.

use crate::kit::Sandbox;
use serde_json::{Value, json};

const FILE: &str = r#"
version: 1
name: texts
stages:
  chats:
    uses: data/import
    with: {source: chats.jsonl}
  clean:
    uses: data/filter
    with:
      trajectories: ${{ stages.chats.trajectories }}
      rules:
        - {kind: language, languages: [en, spa], of: answer}
        - {kind: repetition, of: answer}
        - {kind: symbols, of: answer, min_words: 10, min_characters: 60}
"#;

const PROSE: &str = "The river rises in the hills above the old town, and most of its water comes from the snow that \
                     melts there in May. Farmers have used it for their fields with great care ever since.";
const GERMAN: &str = "Der Fluss entspringt in den Hügeln oberhalb der alten Stadt, und das meiste Wasser kommt vom \
                      Schnee, der dort im Mai schmilzt. Die Bauern nutzen es seit jeher für ihre Felder.";
const SPANISH: &str = "El río nace en las colinas que se levantan detrás de la ciudad antigua, y la mayor parte de su \
                       agua viene de la nieve que se derrite en el mes de mayo, cuando empieza el calor.";

/// Returns conversations with questions in French; the topic of each names the mistake in its answer.
fn chats() -> String {
    let lines = "They say that it will rain.\nWe have to go with them.\n".repeat(2);
    let phrase = "and then the man with the red hat went to the shop";
    let before = "Yesterday it rained so much that nobody wanted to leave home before noon";
    let rows = [
        ("prose", PROSE.to_string()),
        ("german", GERMAN.to_string()),
        ("spanish", SPANISH.to_string()),
        ("lines", lines),
        ("phrase", format!("{before}, {phrase}, but it was closed, {phrase} again.")),
        ("hashes", PROSE.replace(". ", ". # # # # # # ")),
        ("short", "It is 42.".to_string()),
    ];
    let question = "Pouvez-vous me dire quelque chose sur la rivière qui traverse la vieille ville et ses champs ?";
    let row = |(topic, answer): (&str, String)| {
        let messages = json!([{"role": "user", "content": question}, {"role": "assistant", "content": answer}]);
        format!("{}\n", json!({"messages": messages, "topic": topic}))
    };
    rows.map(row).concat()
}

/// Returns the topic of each row of an output, with the rule and the reason of its last verdict.
fn verdicts(s: &Sandbox, output: &str) -> Vec<[String; 3]> {
    let sql = "select meta_topic, json_extract(verdicts, '$[#-1].rule'), json_extract(verdicts, '$[#-1].reason') \
               from self";
    let path = format!("latest/clean/{output}");
    let found = s.run(&["artifacts", "query", &path, sql, "--format", "json"]).code(0).json();
    let text = |cell: &Value| cell.as_str().unwrap_or_default().to_string();
    found["rows"].as_array().unwrap().iter().map(|row| [0, 1, 2].map(|column| text(&row[column]))).collect()
}

/// Asserts the topics, rules and reasons of the rejected rows; of a reason the beginning.
fn rejects(s: &Sandbox, expected: &[[&str; 3]]) {
    let rejected = verdicts(s, "rejected");
    assert_eq!(rejected.len(), expected.len(), "{rejected:?}");
    for (found, wanted) in rejected.iter().zip(expected) {
        assert_eq!(found[..2], wanted[..2]);
        assert!(found[2].starts_with(&format!("{}: ", wanted[2])), "{found:?}, not {wanted:?}");
    }
}

#[test]
fn texts_are_kept_by_language_repetition_and_symbols() {
    let s = Sandbox::new();
    s.write("chats.jsonl", chats());
    s.write("texts.yaml", FILE);
    s.run(&["check", "texts.yaml"]).code(0);
    s.run(&["run", "texts.yaml"]).code(0).says("kept 1");
    assert_eq!(verdicts(&s, "kept"), [["prose", "symbols", ""]]);
    let german = ["german", "language", "other_language"];
    let spanish = ["spanish", "symbols", "few_stop_words"];
    let phrase = ["phrase", "repetition", "duplicate_5_grams"];
    let short = ["short", "symbols", "too_few_characters"];
    let lines = ["lines", "repetition", "duplicate_lines"];
    rejects(&s, &[german, spanish, lines, phrase, ["hashes", "symbols", "hashes"], short]);

    // Six letters tell no language; a limit that is null rejects nothing.
    let other = FILE.replace("[en, spa],", "[en, spa], unknown: reject,");
    let other = other.replace("{kind: repetition,", "{kind: repetition, duplicate_lines: null, top_3_gram: 1,");
    let other = other.replace("{kind: repetition,", "{kind: repetition, duplicate_line_characters: null,");
    s.write("texts.yaml", other.replace("{kind: symbols,", "{kind: symbols, max_hashes: null,"));
    s.run(&["run", "texts.yaml"]).code(0).says("kept 2");
    let lines = ["lines", "repetition", "top_4_gram"];
    rejects(&s, &[german, spanish, lines, phrase, ["short", "language", "unknown_language"]]);
}

#[test]
fn wrong_options_of_text_rules_are_named_with_their_place() {
    let s = Sandbox::new();
    s.write("chats.jsonl", chats());
    s.write("texts.yaml", FILE.replace("{kind: repetition,", "{kind: repetition, top_2_gram: 2,"));
    s.run(&["check", "texts.yaml"]).code(2).says("texts.yaml:14:").says("must be at most 1.0");
    let wrong = FILE.replace("[en, spa]", "[en, english]").replace("min_words: 10", "min_words: 100001");
    s.write("texts.yaml", wrong);
    s.run(&["check", "texts.yaml"])
        .code(2)
        .says("texts.yaml:13:")
        .says("unknown language `english`")
        .says("(deu)")
        .says("texts.yaml:15:")
        .says("100001 is more than `max_words`, which is 100000");
}

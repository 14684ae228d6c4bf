//! `data/import` on typical files: patterns, archives, unnamed formats, broken rows.

use crate::kit::Sandbox;
use serde_json::Value;
use std::io::Write as _;

const IMPORT: &str = r#"
version: 1
name: chats
stages:
  chats:
    uses: data/import
    with: {source: "shards/*.jsonl.zst"}
"#;

fn chat(n: usize) -> String {
    format!(
        "{{\"messages\": [{{\"role\": \"developer\", \"content\": \"s\"}}, \
         {{\"role\": \"user\", \"content\": \"q{n}\"}}, \
         {{\"role\": \"assistant\", \"content\": \"a{n}\"}}]}}\n"
    )
}

fn packed(rows: &str) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(rows.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn rows(s: &Sandbox, query: &str, output: &str) -> Value {
    s.run(&["artifacts", "query", &format!("latest/chats/{output}"), query, "--format", "json"]).code(0).json()["rows"]
        .take()
}

#[test]
fn a_pattern_of_archives_is_imported_and_broken_rows_are_an_output() {
    let s = Sandbox::new();
    let many: String = (0..60).map(chat).collect();
    s.write("shards/1.jsonl.zst", packed(&many));
    s.write("shards/2.jsonl.zst", packed(&format!("{}{{\"messages\": 7}}\n{}", chat(60), chat(61))));
    s.write("shards/3.jsonl", "not matched");
    s.write("chats.yaml", IMPORT);
    s.run(&["run", "chats.yaml"]).code(0).says("trajectories 62").says("quarantined 1");
    assert_eq!(rows(&s, "select count(*), max(tool_calls) from self", "trajectories")[0][0], 62);
    let places =
        rows(&s, "select parents from self where messages like '%q59%' or messages like '%q61%'", "trajectories");
    assert_eq!(places, serde_json::json!([[["1.jsonl.zst:60"]], [["2.jsonl.zst:3"]]]));
    let refused = rows(&s, "select file, line, reason from self", "quarantine");
    assert!(refused[0][0] == "2.jsonl.zst" && refused[0][1] == 2, "{refused}");
    assert!(refused[0][2].as_str().unwrap().contains("not a list"), "{refused}");
    // The source consists of the matching files: another matching file changes the source, any other file does not.
    s.write("shards/4.jsonl", "not matched");
    s.run(&["run", "chats.yaml"]).code(0).says("chats: hit");
    s.write("shards/4.jsonl.zst", packed(&chat(70)));
    s.run(&["run", "chats.yaml"]).code(0).says("trajectories 63");
    s.run(&["run", "chats.yaml"]).code(0).says("chats: hit");
}

#[test]
fn what_cannot_be_imported_is_told_before_or_by_name() {
    let s = Sandbox::new();
    s.write("chats.yaml", IMPORT);
    s.run(&["check", "chats.yaml"]).code(2).says("shards");
    s.write("shards/1.jsonl", chat(1));
    s.run(&["check", "chats.yaml"]).code(2).says("*.jsonl.zst: no file matches");
    s.write("shards/1.jsonl.zst", packed(&format!("{}{{\"messages\": 7}}\n", chat(1))));
    s.run(&["run", "chats.yaml"]).code(1).says("1 of 2 rows cannot be read").says("1.jsonl.zst line 2: ");
    let bytes = packed(&(0..9_000).map(chat).collect::<String>());
    s.write("shards/1.jsonl.zst", &bytes[..bytes.len() / 2]);
    s.run(&["run", "chats.yaml"]).code(1).says("1.jsonl.zst is cut off or corrupt");
    s.write("shards/1.jsonl.zst", packed("{\"words\": 1}\n"));
    s.run(&["run", "chats.yaml"]).code(1).says("the columns of these rows: words");
}

const OWN_COLUMNS: &str = r#"
version: 1
name: columns
stages:
  chats:
    uses: data/import
    with: {source: chats.jsonl}
  good:
    uses: data/filter
    with:
      trajectories: ${{ stages.chats.trajectories }}
      rules: [{kind: expression, keep: "meta_quality > 0.5 and meta_lang = 'de'"}]
"#;

#[test]
fn columns_of_the_user_are_kept_filtered_and_exported() {
    let s = Sandbox::new();
    let row = |n: usize, quality: f64, lang: &str| {
        let mut row: Value = serde_json::from_str(&chat(n)).unwrap();
        row["conversation_id"] = format!("c{n}").into();
        row["quality"] = quality.into();
        row["lang"] = lang.into();
        format!("{row}\n")
    };
    s.write("chats.jsonl", [row(1, 0.9, "de"), row(2, 0.2, "de"), row(3, 0.8, "en")].concat());
    s.write("columns.yaml", OWN_COLUMNS);
    s.run(&["check", "columns.yaml"]).code(0);
    s.run(&["run", "columns.yaml"]).code(0);
    let ids = rows(&s, "select meta_conversation_id, meta_quality from self", "trajectories");
    assert_eq!(ids, serde_json::json!([["c1", 0.9], ["c2", 0.2], ["c3", 0.8]]));
    s.run(&["artifacts", "show", "latest/chats/trajectories"]).code(0).prints("meta_quality").prints("conversation_id");
    s.run(&["artifacts", "show", "latest/good/kept", "--row", "0"]).code(0).prints("\"quality\":0.9");
    s.run(&["artifacts", "export", "latest/good/kept", "good.jsonl", "--as", "trl"]).code(0);
    let exported: Value = serde_json::from_str(s.read("good.jsonl").trim()).unwrap();
    assert!(exported["conversation_id"] == "c1" && exported["quality"] == 0.9 && exported["lang"] == "de");
    // The name without `meta_` is an error that says which name is right.
    s.write("wrong.yaml", OWN_COLUMNS.replace("meta_quality", "quality"));
    s.run(&["run", "wrong.yaml"]).code(2).says("no column `quality`").says("is `meta_quality`");
}

const CONDITION: &str = r#"
version: 1
name: condition
stages:
  chats:
    uses: data/import
    with: {source: alpaca.jsonl}
  good:
    uses: data/filter
    with:
      trajectories: ${{ stages.chats.trajectories }}
      rules: [{kind: expression, keep: "CONDITION"}]
"#;

#[test]
fn conditions_have_one_meaning_however_they_are_computed() {
    let s = Sandbox::new();
    let row = |answer: &str| format!("{{\"instruction\": \"Say {answer}.\", \"output\": \"{answer}\"}}\n");
    s.write("alpaca.jsonl", ["dog", "DOG", "42", "é", "a dog's\\nlife"].map(row).concat());
    let kept = |name: &str, condition: &str| {
        s.write(name, CONDITION.replace("CONDITION", condition));
        s.run(&["run", name]).code(0);
        let sql = "select answer from self order by id";
        let found = s.run(&["artifacts", "query", "latest/good/kept", sql, "--format", "json"]).code(0).json();
        let mut answers: Vec<String> =
            found["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap().to_string()).collect();
        answers.sort();
        answers
    };
    assert_eq!(kept("like.yaml", "answer LIKE '%dog%' AND length(answer) > 3"), ["a dog's\nlife"]);
    assert_eq!(kept("ilike.yaml", "answer ILIKE 'dog' OR length(answer) = 1"), ["DOG", "dog", "é"]);
    // Text compared with a number, and an aggregate.
    assert_eq!(kept("affinity.yaml", "answer = 42"), ["42"]);
    assert_eq!(kept("longest.yaml", "length(answer) = max(length(answer))"), ["a dog's\nlife"]);
    let verdict = "select verdicts from self where answer = 'dog'";
    s.run(&["artifacts", "query", "latest/good/rejected", verdict]).code(0).prints("not_true");
    s.write("value.yaml", CONDITION.replace("CONDITION", "length(answer)"));
    s.run(&["run", "value.yaml"]).code(2).says("is a value, not true or false");
}

#[test]
fn rows_of_other_shapes_are_read() {
    let s = Sandbox::new();
    let stage = |name: &str, with: &str| {
        format!("version: 1\nname: {name}\nstages:\n  chats:\n    uses: data/import\n    with: {{{with}}}\n")
    };
    s.write(
        "alpaca.jsonl",
        "{\"instruction\": \"Translate.\", \"input\": \"Hund\", \"output\": \"dog\", \"topic\": \"animals\"}\n\
         {\"instruction\": \"Say yes.\", \"input\": \"\", \"output\": \"yes\"}\n",
    );
    s.write("alpaca.yaml", stage("alpaca", "source: alpaca.jsonl"));
    s.run(&["run", "alpaca.yaml"]).code(0).says("trajectories 2");
    let sql = "select json_extract(messages, '$[0].content'), answer, meta_topic from self";
    let expected = serde_json::json!([["Translate.\n\nHund", "dog", "animals"], ["Say yes.", "yes", null]]);
    assert_eq!(rows(&s, sql, "trajectories"), expected);

    s.write("pairs.jsonl", "{\"prompt\": \"2+2?\", \"completion\": \"4\", \"system\": \"Be brief.\"}\n");
    s.write("pairs.yaml", stage("pairs", "source: pairs.jsonl"));
    s.run(&["run", "pairs.yaml"]).code(0).says("trajectories 1");
    let sql = "select json_extract(messages, '$[0].content'), json_extract(messages, '$[1].content') from self";
    assert_eq!(rows(&s, sql, "trajectories"), serde_json::json!([["Be brief.", "2+2?"]]));

    s.write("own.jsonl", "{\"task\": \"2+2?\", \"gold\": 4, \"topic\": \"sums\"}\n");
    s.write("own.yaml", stage("own", "source: own.jsonl, columns: {prompt: task, answer: gold}"));
    s.run(&["run", "own.yaml"]).code(0).says("problems 1");
    let sql = "select json_extract(messages, '$[0].content'), answer, meta_topic from self";
    assert_eq!(rows(&s, sql, "problems"), serde_json::json!([["2+2?", "4", "sums"]]));
    s.write("own.yaml", stage("own", "source: own.jsonl, columns: {prompt: task, answer: glod}"));
    s.run(&["check", "own.yaml"]).code(2).says("missing column `glod`").says("the columns are: gold, task, topic");
    s.write("own.yaml", stage("own", "source: own.jsonl, columns: {promt: task, answer: gold}"));
    s.run(&["check", "own.yaml"]).code(2).says("no format reads a column `promt`").says("own.yaml:6:");
    s.write("own.yaml", stage("own", "source: own.jsonl"));
    s.run(&["run", "own.yaml"]).code(1).says("the columns of these rows: gold, task, topic").says("columns: {");
}

#[test]
fn repeated_prompts_are_kept_or_dropped() {
    let s = Sandbox::new();
    let problem = |n: usize| format!("{{\"prompt\": \"q{n}\", \"answer\": \"{n}\", \"line\": {n}}}\n");
    s.write("problems.jsonl", [1, 2, 1, 1].map(problem).concat());
    let stage = |with: &str| {
        let source = "source: problems.jsonl";
        format!("version: 1\nname: p\nstages:\n  chats:\n    uses: data/import\n    with: {{{source}{with}}}\n")
    };
    s.write("p.yaml", stage(""));
    s.run(&["run", "p.yaml"]).code(0).says("problems 4").says("quarantined 0");
    let ids = rows(&s, "select id from self", "problems");
    let first = ids[0][0].as_str().unwrap();
    assert!(ids[2][0] == format!("{first}-3") && ids[3][0] == format!("{first}-4"), "{ids}");
    s.write("p.yaml", stage(", duplicates: drop"));
    s.run(&["run", "p.yaml"]).code(0).says("problems 2").says("dropped 2");
    assert_eq!(rows(&s, "select id, meta_line from self", "problems")[0], serde_json::json!([first, 1]));
    let same_id = |n: usize| format!("{{\"prompt\": \"q{n}\", \"answer\": \"{n}\", \"id\": \"x\"}}\n");
    s.write("problems.jsonl", [1, 2].map(same_id).concat());
    s.run(&["run", "p.yaml"]).code(1).says("asks something else than line 1, which has the same id: `x`");
}

/// Writes a cell: quoted, with its quotes twice.
fn cell(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[test]
fn tables_of_spreadsheets_are_read() {
    let s = Sandbox::new();
    let stage = |name: &str, with: &str| {
        format!("version: 1\nname: {name}\nstages:\n  chats:\n    uses: data/import\n    with: {{{with}}}\n")
    };
    let messages = |n: usize| {
        let chat: Value = serde_json::from_str(&chat(n)).unwrap();
        cell(&chat["messages"].to_string())
    };
    let rows_of_chats = [messages(1) + ",0.9,de", "\"[{}]\",0.5,de".into(), messages(2) + ",0.2,", messages(3)];
    s.write("chats.csv", format!("messages,quality,lang\r\n{}\r\n", rows_of_chats.join("\r\n")));
    s.write("chats.yaml", stage("chats", "source: chats.csv, max_quarantined: 0.5"));
    s.run(&["check", "chats.yaml"]).code(0);
    s.run(&["run", "chats.yaml"]).code(0).says("trajectories 2").says("quarantined 2");
    let sql = "select json_extract(messages, '$[1].content'), meta_quality + 1, meta_lang from self";
    assert_eq!(rows(&s, sql, "trajectories"), serde_json::json!([["q1", 1.9, "de"], ["q2", 1.2, null]]));
    let refused = rows(&s, "select file, line, reason from self order by line", "quarantine");
    assert!(refused[0][0] == "chats.csv" && refused[0][1] == 3 && refused[1][1] == 5, "{refused}");
    assert_eq!(refused[1][2], "the number of cells is 1, but the header has 3");

    // A user's questions under other names, with line breaks and numbers that stay text.
    let asked = format!("task\tgold\tlevel\n{}\t1.50\t2\n12\t[1, 2]\t\n", cell("Say\n\"half\"."));
    s.write("own.tsv.zst", packed(&asked));
    s.write("own.yaml", stage("own", "source: own.tsv.zst, columns: {question: task, answer: gold}"));
    s.run(&["run", "own.yaml"]).code(0).says("problems 2").says("quarantined 0");
    let sql = "select json_extract(messages, '$[0].content'), answer, level from self";
    let expected = serde_json::json!([["Say\n\"half\".", "1.50", 2], ["12", "[1, 2]", 0]]);
    assert_eq!(rows(&s, sql, "problems"), expected);
    s.write("own.yaml", stage("own", "source: own.tsv.zst, columns: {question: task, answer: glod}"));
    s.run(&["check", "own.yaml"]).code(2).says("missing column `glod`").says("the columns are: gold, level, task");

    // A folder's tables count only without other files of rows.
    s.write("folder/train.csv", "question,answer\n2+2?,4\n");
    s.write("folder.yaml", stage("folder", "source: folder"));
    s.run(&["run", "folder.yaml"]).code(0).says("problems 1");
    s.write("folder/train.jsonl", "{\"question\": \"1+1?\", \"answer\": 2}\n{\"question\": \"3+3?\", \"answer\": 6}\n");
    s.run(&["run", "folder.yaml"]).code(0).says("problems 2");
    s.write("own.csv", "question,answer,answer\n1,2,3\n");
    s.write("own.yaml", stage("own", "source: own.csv"));
    s.run(&["run", "own.yaml"]).code(1).says("own.csv: the header is not valid").says("named `answer`");
}

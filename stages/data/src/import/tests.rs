use super::*;
use crate::identity::half_of;
use crate::testing::real;
use std::fmt::Write as _;
use trainyard_core::ErrorKind;
use trainyard_tables::{Trajectory, read_problems, read_trajectories};

/// Reads a file, and fails at the first unreadable row.
pub fn read_file(format: &str, file: &Path, reading: &ImportContext) -> Result<ImportedRows> {
    let folder = tempfile::tempdir().unwrap();
    let format = registry::format(format).unwrap();
    let import = flow::Importer {
        format,
        reading,
        on_error: ImportErrorPolicy::Fail,
        max_quarantined: 0.0,
        on_chunk: &|_| Ok(()),
    };
    let places = OUTPUTS.map(|port| (port, folder.path().join(port)));
    import.run(
        &rows::files::source_files(file, Some(format), &reading.split)?,
        &mut ImportTables::at(places.clone().into()),
    )?;
    let [problems, trajectories, preferences, solutions, _] = places.map(|(_, path)| path);
    let rows = |path: &Path| if path.exists() { read_trajectories(path).unwrap() } else { Vec::new() };
    Ok(ImportedRows {
        problems: if problems.exists() { read_problems(&problems).unwrap() } else { Vec::new() },
        trajectories: rows(&trajectories),
        preferences: rows(&preferences),
        solutions: if solutions.exists() { crate::solutions::read(&solutions).unwrap() } else { Vec::new() },
    })
}

fn read(format: &str, text: &str, reading: ImportContext) -> Result<ImportedRows> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    std::fs::write(&file, text).unwrap();
    read_file(format, &file, &reading)
}

fn named(name: &str) -> ImportContext {
    ImportContext { name: name.into(), split: "train".into(), ..ImportContext::default() }
}

#[test]
fn gsm8k_rows_keep_answer_reference_and_level() {
    let text = r#"{"question": "How many?", "answer": "48/2 = <<48/2=24>>24.\nIn all <<48+24=72>>72.\n#### 1,072"}"#;
    let problem = read("gsm8k", text, named("gsm8k")).unwrap().problems.remove(0);
    assert_eq!((problem.answer.as_str(), problem.level, problem.split.as_str()), ("1072", 2, "train"));
    assert_eq!(problem.question(), "How many?");
    assert!(problem.reference.unwrap().contains("<<48/2=24>>"));
    assert!(problem.id.starts_with("gsm8k-") && problem.id.len() == 18);
    assert_eq!(problem.canonical, "how many");
}

#[test]
fn invalid_lines_are_reported() {
    let good = r#"{"question": "q", "answer": "a #### 1"}"#;
    for (bad, word) in [
        ("{\"question\": \"q", "EOF"),
        (r#"{"question": "q"}"#, "missing column `answer`"),
        (r#"{"question": "q", "answer": "none"}"#, "####"),
        (r#"{"question": 3, "answer": "a #### 1"}"#, "`question` is not text"),
        ("[1]", ""),
    ] {
        let e = read("gsm8k", &format!("{good}\n\n{bad}\n"), named("g")).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Data);
        assert!(e.message.contains("line 3") && e.message.contains(word), "{}", e.message);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.jsonl");
    std::fs::write(&file, b"{}\n\xff\n").unwrap();
    assert!(read_file("gsm8k", &file, &named("g")).unwrap_err().message.contains("line"));
}

#[test]
fn limit_and_half_select_rows() {
    let mut text = String::new();
    for i in 0..40 {
        writeln!(text, r#"{{"question": "q{i}", "answer": "{i}"}}"#).unwrap();
    }
    let count = |reading: ImportContext| read("jsonl", &text, reading).unwrap().problems.len();
    let half = |h| ImportContext { half: Some(h), ..named("x") };
    assert_eq!(count(half(Half::A)) + count(half(Half::B)), 40);
    assert!(count(half(Half::A)) > 5);
    let some = read("jsonl", &text, ImportContext { limit: Some(3), ..half(Half::B) }).unwrap().problems;
    assert!(some.len() == 3 && some.iter().all(|p| half_of(p.question()) == Half::B));
}

#[test]
fn solutions_are_sorted_by_solver_and_joined_by_problem() {
    let text = concat!(
        r#"{"question": "q", "ground_truth": "x <<1+1=2>>2\nA: 2", "z": {"is_correct": true, "solution": "A: 2"}, "#,
        r#""a": {"is_correct": false, "solution": "A: 3"}}"#,
    );
    let imported = read("gsm8k_solutions", text, named("gsm8k_solutions")).unwrap();
    assert_eq!(
        imported.solutions.iter().map(|s| (s.solver.as_str(), s.correct)).collect::<Vec<_>>(),
        [("a", false), ("z", true)]
    );
    let same = read("gsm8k", r#"{"question": "q", "answer": "x <<1+1=2>>2\n#### 2"}"#, named("gsm8k"))
        .unwrap()
        .problems
        .remove(0);
    assert_eq!(
        (imported.problems[0].id.as_str(), imported.problems[0].answer.as_str(), imported.problems[0].level),
        (same.id.as_str(), "2", same.level)
    );
    assert_eq!(imported.solutions[0].problem_id, same.id);
    assert!(
        read("gsm8k_solutions", r#"{"question": "q", "ground_truth": "A: 2"}"#, named("g"))
            .unwrap_err()
            .message
            .contains("no solver")
    );
}

#[test]
fn jsonl_finds_its_columns() {
    let text = concat!(
        r#"{"prompt": [{"role": "user", "content": "p"}], "target": 7, "id": "x1", "level": 2, "#,
        r#""verifier": {"tolerance": 0.1}}"#,
        "\n",
        r#"{"messages": [{"role": "user", "content": "m"}, {"role": "assistant", "content": "5"}], "answer": "5"}"#,
    );
    let problems = read("jsonl", text, named("own")).unwrap().problems;
    assert_eq!((problems[0].id.as_str(), problems[0].answer.as_str(), problems[0].level), ("x1", "7", 2));
    assert_eq!(problems[0].verifier, r#"{"tolerance":0.1}"#);
    assert_eq!(problems[1].messages.len(), 1);
    assert!(read("jsonl", r#"{"text": "q", "answer": "1"}"#, named("o")).unwrap_err().message.contains("answer, text"));
    assert!(
        read("jsonl", r#"{"question": "q", "answer": "1", "level": -1}"#, named("o"))
            .unwrap_err()
            .message
            .contains("`level`")
    );
    let twice = "{\"question\": \"q\", \"answer\": \"1\"}\n{\"question\": \"q\", \"answer\": \"2\"}";
    assert!(read("jsonl", twice, named("o")).unwrap_err().message.contains("line 2"));
}

#[test]
fn repeated_question_is_an_error_with_both_lines() {
    let graded = r#"{"question": "q", "ground_truth": "A: 2", "x": {"is_correct": true, "solution": "A: 2"}}"#;
    let rows = [
        ("gsm8k", r#"{"question": "q", "answer": "a #### 1"}"#),
        ("gsm8k_solutions", graded),
        ("jsonl", r#"{"question": "q", "answer": "1"}"#),
    ];
    for (format, row) in rows {
        let other = row.replace("\"q\"", "\"other\"");
        assert_eq!(read(format, &format!("{row}\n{other}"), named("x")).unwrap().problems.len(), 2);
        let e = read(format, &format!("{row}\n{other}\n{row}"), named("x")).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Data);
        assert!(e.message.contains("line 3: ") && e.message.contains("already used in line 1"), "{}", e.message);
    }
}

#[test]
fn chat_formats_give_the_same_conversation() {
    let openai = concat!(
        r#"{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": null, "#,
        r#""tool_calls": [{"id": "c", "type": "function", "function": {"name": "calculator", "#,
        r#""arguments": "{\"expression\": \"2+2\"}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "4"}, "#,
        r#"{"role": "assistant", "content": "4"}]}"#,
    );
    let sharegpt = concat!(
        r#"[{"conversations": [{"from": "human", "value": "2+2?"}, {"from": "function_call", "#,
        r#""value": "{\"name\": \"calculator\", \"arguments\": {\"expression\": \"2+2\"}}"}, {"from": "observation", "#,
        r#""value": "4"}, {"from": "gpt", "value": "4"}]}]"#,
    );
    let mut a = read("openai", openai, named("x")).unwrap().trajectories.remove(0);
    // ShareGPT has no ids of calls, and the row's id is a digest of all.
    assert_eq!(a.messages[2].tool_call_id.take().as_deref(), Some("c"));
    a.messages[1].tool_calls = a.messages[1].tool_calls.as_ref().map(|calls| calls.replace(r#""id": "c", "#, ""));
    let b = read("sharegpt", sharegpt, named("x")).unwrap().trajectories.remove(0);
    assert_eq!(a.messages, b.messages);
    assert_eq!(Trajectory { id: b.id.clone(), messages: b.messages.clone(), ..a.clone() }, b);
    assert_eq!((a.turns, a.tool_calls, a.answer.as_deref()), (2, 1, Some("4")));
    assert!(a.messages[1].content.contains("<tool_call>") && a.token_ids.is_empty());
    let trl = read("trl", r#"{"prompt": "Hi", "completion": "Hello."}"#, named("x")).unwrap().trajectories.remove(0);
    assert_eq!(trl.messages.iter().map(|m| m.role.as_str()).collect::<Vec<_>>(), ["user", "assistant"]);
    assert!(read("trl", r#"{"prompt": "Hi"}"#, named("x")).unwrap_err().message.contains("completion"));
    assert!(
        read("sharegpt", r#"{"conversations": [{"from": "robot", "value": "x"}]}"#, named("x"))
            .unwrap_err()
            .message
            .contains("turn 1")
    );
    assert!(
        read("openai", r#"{"messages": [{"role": "user", "content": "x"}]}"#, named("x"))
            .unwrap_err()
            .message
            .contains("no assistant message")
    );
}

/// The file has three rows that pandas wrote in the form that verl's trainers read.
#[test]
fn verl_rows_keep_what_trainers_wrote() {
    let file = Path::new("src/import/samples/verl.parquet");
    let read = |reading: ImportContext| read_file("verl", file, &reading).unwrap().problems;
    let problems = read(named("kitchen"));
    assert_eq!(problems.iter().map(|p| p.answer.as_str()).collect::<Vec<_>>(), ["5", "42", "3000"]);
    let second = &problems[1];
    assert!(second.id.starts_with("kitchen-") && second.id.ends_with("-1"), "{}", second.id);
    assert_eq!(
        (second.source.as_str(), second.split.as_str(), second.environment.as_str()),
        ("kitchen", "train", "math-problems")
    );
    assert!(
        second.question().starts_with("Bob bakes 4 trays")
            && second.reference.as_deref().unwrap().contains("<<48-6=42>>")
    );
    assert_eq!(read(ImportContext { limit: Some(2), ..named("kitchen") }), problems[..2]);
}

#[test]
fn real_gsm8k_files_are_read_completely() {
    let Some(folder) = real("gsm8k") else { return };
    let read = |format: &str, split: &str| {
        let name = registry::format(format).unwrap().file_name(split).unwrap_or_else(|| format!("{split}.jsonl"));
        read_file(format, &folder.join(name), &ImportContext { split: split.into(), ..named("gsm8k") }).unwrap()
    };
    let (train, test) = (read("gsm8k", "train").problems, read("gsm8k", "test").problems);
    assert_eq!((train.len(), test.len()), (7_473, 1_319));
    let ids: std::collections::BTreeSet<&str> = train.iter().chain(&test).map(|p| p.id.as_str()).collect();
    assert_eq!(ids.len(), 8_792);
    assert!(train.iter().all(|p| p.answer.parse::<f64>().is_ok()));
    let graded = read("gsm8k_solutions", "test");
    assert_eq!((graded.solutions.len(), graded.solutions.iter().filter(|s| s.correct).count()), (5_276, 2_001));
    assert_eq!(
        graded.problems.iter().map(|p| &p.id).collect::<Vec<_>>(),
        test.iter().map(|p| &p.id).collect::<Vec<_>>()
    );
    assert!(graded.problems.iter().zip(&test).all(|(a, b)| a.answer == b.answer));
}

#[test]
fn a_real_verl_file_is_read() {
    let Some(file) = real("toolrl/rlla_4k_test.parquet") else { return };
    let problems = read_file("verl", &file, &named("rlla")).unwrap().problems;
    assert!(problems.len() > 50);
    assert!(problems.iter().all(|p| !p.question().is_empty() && !p.answer.is_empty()));
    let ids: std::collections::BTreeSet<&str> = problems.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids.len(), problems.len());
}

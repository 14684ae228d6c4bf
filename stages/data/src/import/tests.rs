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
        duplicates: DuplicatePolicy::Keep,
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
    let same_id = ["q", "r"].map(|q| format!(r#"{{"question": "{q}", "answer": "1", "id": "x"}}"#)).join("\n");
    let error = read("jsonl", &same_id, named("o")).unwrap_err();
    assert!(error.message.ends_with("line 2: asks something else than line 1, which has the same id: `x`"), "{error}");
}

#[test]
fn repeated_questions_are_kept_under_ids_with_their_position() {
    let graded = r#"{"question": "q", "ground_truth": "A: 2", "x": {"is_correct": true, "solution": "A: 2"}}"#;
    let rows = [
        ("gsm8k", r#"{"question": "q", "answer": "a #### 1"}"#),
        ("gsm8k_solutions", graded),
        ("jsonl", r#"{"question": "q", "answer": "1"}"#),
    ];
    for (format, row) in rows {
        let other = row.replace("\"q\"", "\"other\"");
        let read = read(format, &format!("{row}\n{other}\n{row}\n{row}"), named("x")).unwrap();
        let ids: Vec<&str> = read.problems.iter().map(|p| p.id.as_str()).collect();
        let (first, second) = (crate::identity::problem_id("x", "q"), crate::identity::problem_id("x", "other"));
        assert_eq!(ids, [first.clone(), second, format!("{first}-3"), format!("{first}-4")]);
        if format == "gsm8k_solutions" {
            assert_eq!(read.solutions.iter().map(|s| s.problem_id.as_str()).collect::<Vec<_>>(), ids);
        }
    }
}

#[test]
fn alpaca_rows_become_conversations() {
    let text = concat!(
        r#"{"instruction": "Translate.", "input": "Hund", "output": "dog", "lang": "de"}"#,
        "\n",
        r#"{"instruction": "And cat?", "input": "", "output": "Katze", "system": "Be brief.", "#,
        r#""history": [["Dog?", "Hund"]]}"#,
    );
    let rows = read("alpaca", text, named("a")).unwrap().trajectories;
    let texts =
        |row: &Trajectory| row.messages.iter().map(|m| format!("{}: {}", m.role, m.content)).collect::<Vec<_>>();
    assert_eq!(texts(&rows[0]), ["user: Translate.\n\nHund", "assistant: dog"]);
    assert_eq!(rows[0].meta.as_deref(), Some(r#"{"lang":"de"}"#));
    let second = ["system: Be brief.", "user: Dog?", "assistant: Hund", "user: And cat?", "assistant: Katze"];
    assert_eq!((texts(&rows[1]), rows[1].meta.as_deref()), (second.map(String::from).to_vec(), None));
    for (row, word) in [
        (r#"{"instruction": "x", "input": 3, "output": "y"}"#, "`input` is not text"),
        (r#"{"instruction": "x", "input": ""}"#, "missing column `output`; the columns are: input, instruction"),
        (r#"{"instruction": "x", "output": "y", "history": [["a"]]}"#, "`history` is not a list of pairs"),
    ] {
        let error = read("alpaca", row, named("a")).unwrap_err();
        assert!(error.message.contains(word), "{word}: {error}");
    }
}

#[test]
fn renamed_columns_are_read_and_a_missing_one_is_named() {
    let columns = [("prompt", "task"), ("answer", "gold")].map(|(name, own)| (name.to_string(), own.to_string()));
    let context = || ImportContext { columns: columns.clone().into(), ..named("own") };
    let problem =
        read("jsonl", r#"{"task": "2+2?", "gold": 4, "topic": "sums"}"#, context()).unwrap().problems.remove(0);
    assert_eq!((problem.question(), problem.answer.as_str()), ("2+2?", "4"));
    assert_eq!(problem.meta.as_deref(), Some(r#"{"topic":"sums"}"#));
    let error = read("jsonl", r#"{"task": "2+2?", "topic": "sums"}"#, context()).unwrap_err();
    let expected = "missing column `gold`, which `columns` names for `answer`; the columns are: task, topic";
    assert!(error.message.contains(expected), "{error}");
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
    let ids: BTreeSet<&str> = train.iter().chain(&test).map(|p| p.id.as_str()).collect();
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
    let ids: BTreeSet<&str> = problems.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids.len(), problems.len());
}

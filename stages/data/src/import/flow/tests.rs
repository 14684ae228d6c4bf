use super::*;
use crate::import::registry::{family, format};
use crate::import::rows::files;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trainyard_tables::{read_problems, read_trajectories, rows_as_json};

/// Imports all files of a source into tables in the folder `out`.
fn import(source: &Path, out: &Path, settings: &Settings) -> Result<ImportCounts> {
    let files = files::source_files(source, None, "train")?;
    let formats: Vec<&'static dyn ImportFormat> = family().names().into_iter().filter_map(format).collect();
    let format = detect::detect(&files, &formats, &BTreeMap::new())?;
    let reading =
        ImportContext { name: "x".into(), split: "train".into(), limit: settings.limit, ..ImportContext::default() };
    let import = Importer {
        format,
        reading: &reading,
        on_error: settings.on_error,
        duplicates: settings.duplicates,
        max_quarantined: settings.max_quarantined,
        on_chunk: &|_| Ok(()),
    };
    std::fs::create_dir_all(out).unwrap();
    let ports = ["problems", "trajectories", "preferences", "solutions", "quarantine"];
    import.run(&files, &mut ImportTables::at(ports.map(|port| (port, out.join(port))).into()))
}

struct Settings {
    on_error: ImportErrorPolicy,
    duplicates: DuplicatePolicy,
    max_quarantined: f64,
    limit: Option<u64>,
}

const USUAL: Settings = Settings {
    on_error: ImportErrorPolicy::Quarantine,
    duplicates: DuplicatePolicy::Keep,
    max_quarantined: 0.05,
    limit: None,
};

fn problem(n: usize) -> String {
    json!({"question": format!("q{n}"), "answer": n}).to_string()
}

fn written(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// Returns a hundred rows, some of which are unreadable.
fn damaged(bad: &[(usize, &str)]) -> String {
    let bad: BTreeMap<usize, &str> = bad.iter().copied().collect();
    (1..=100).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{}", bad.get(&n).map_or_else(|| problem(n), ToString::to_string));
        text
    })
}

#[test]
fn unreadable_rows_go_to_the_quarantine_with_file_line_and_reason() {
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "answer": 1}).to_string();
    let (folder, path) =
        written("rows.jsonl", &damaged(&[(3, "{\"question\""), (50, "{\"question\": \"x\"}"), (60, &image)]));
    let out = folder.path().join("out");
    let counts = import(&path, &out, &USUAL).unwrap();
    assert_eq!((counts.read, counts.taken, counts.problems, counts.quarantined), (100, 97, 97, 3));
    let refused = rows_as_json(&out.join("quarantine"), 0, 9).unwrap();
    let place = |i: usize| (refused[i]["file"].as_str().unwrap(), refused[i]["line"].as_u64().unwrap());
    assert_eq!([place(0), place(1), place(2)], [("rows.jsonl", 3), ("rows.jsonl", 50), ("rows.jsonl", 60)]);
    let reasons = ["cut off", "missing column `answer`", "of type `image_url`; only text"];
    for (row, reason) in refused.iter().zip(reasons) {
        assert!(row["reason"].as_str().unwrap().contains(reason), "{row}");
    }
    assert_eq!(read_problems(&out.join("problems")).unwrap().len(), 97);
    let (folder, path) = written("rows.jsonl", &damaged(&[]));
    let out = folder.path().join("out");
    assert_eq!(import(&path, &out, &USUAL).unwrap().quarantined, 0);
    assert!(!out.join("quarantine").exists(), "nothing was refused");
}

#[test]
fn repeated_rows_are_kept_or_dropped() {
    let (folder, path) = written("rows.jsonl", &damaged(&[(50, &problem(7)), (60, &problem(7))]));
    let out = folder.path().join("out");
    let counts = import(&path, &out, &USUAL).unwrap();
    assert_eq!((counts.problems, counts.dropped, counts.quarantined), (100, 0, 0));
    let ids: std::collections::BTreeSet<String> =
        read_problems(&out.join("problems")).unwrap().into_iter().map(|p| p.id).collect();
    assert!(ids.len() == 100 && ids.contains(&format!("{}-60", crate::identity::problem_id("x", "q7"))), "{ids:?}");
    let counts = import(&path, &out, &Settings { duplicates: DuplicatePolicy::Drop, ..USUAL }).unwrap();
    assert_eq!((counts.read, counts.taken, counts.problems, counts.dropped), (100, 98, 98, 2));
    // Conversations are repeated if all their messages are.
    let chat = |answer: &str| {
        json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]}).to_string()
    };
    let (folder, path) = written("rows.jsonl", &[chat("a"), chat("b"), chat("a")].join("\n"));
    let counts = import(&path, &folder.path().join("out"), &Settings { duplicates: DuplicatePolicy::Drop, ..USUAL });
    assert_eq!(counts.map(|counts| (counts.trajectories, counts.dropped)), Ok((2, 1)));
}

#[test]
fn a_renamed_column_that_no_row_has_is_named_with_the_columns_that_exist() {
    let (_folder, path) = written("rows.jsonl", "{\"task\": \"q\"}\n{\"task\": \"q\", \"gold\": 1}\n");
    let files = files::source_files(&path, None, "train").unwrap();
    let columns = |own: &str| BTreeMap::from([("answer".to_string(), own.to_string())]);
    assert_eq!(columns::expect_columns(&files, &columns("gold")), Ok(()));
    let error = columns::expect_columns(&files, &columns("glod")).unwrap_err();
    let expected = "missing column `glod`, which `columns` names for `answer`; the columns are: gold, task";
    assert_eq!(error.message, expected);
}

#[test]
fn too_many_unreadable_rows_fail_with_the_first_reasons() {
    let bad: Vec<(usize, &str)> = (10..16).map(|n| (n, "{}")).collect();
    let (folder, path) = written("rows.jsonl", &damaged(&bad));
    let out = folder.path().join("out");
    let error = import(&path, &out, &USUAL).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data);
    for word in ["6 of 100 rows", "rows.jsonl line 10: ", "rows.jsonl line 12: ", "; and 3 more"] {
        assert!(error.message.contains(word), "{error}");
    }
    assert_eq!(import(&path, &out, &Settings { max_quarantined: 0.06, ..USUAL }).unwrap().quarantined, 6);
    let error = import(&path, &out, &Settings { on_error: ImportErrorPolicy::Fail, ..USUAL }).unwrap_err();
    assert!(error.message.contains("rows.jsonl line 10: ") && !error.message.contains("line 11"), "{error}");
    // Rows after the last taken one are not read.
    let few = Settings { on_error: ImportErrorPolicy::Fail, limit: Some(9), ..USUAL };
    assert_eq!(import(&path, &out, &few).unwrap().taken, 9);
    let (folder, path) = written("rows.jsonl", &format!("{}\nx\n", problem(1)));
    let whole = Settings { max_quarantined: 1.0, ..USUAL };
    assert_eq!(import(&path, &folder.path().join("out"), &whole).unwrap().taken, 1);
}

#[test]
fn a_folder_is_read_in_the_order_of_its_files_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let chat = |n: usize| {
        json!({"messages": [{"role": "user", "content": n.to_string()}, {"role": "assistant", "content": "a"}]})
            .to_string()
    };
    for file in 0..3 {
        let rows: Vec<String> = (0..1500).map(|n| chat(file * 1500 + n)).collect();
        std::fs::write(folder.path().join(format!("train-{file}.jsonl")), rows.join("\n")).unwrap();
    }
    let bytes = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let out = tempfile::tempdir().unwrap();
        pool.install(|| import(folder.path(), out.path(), &USUAL)).unwrap();
        std::fs::read(out.path().join("trajectories")).unwrap()
    };
    let one = bytes(1);
    assert!(one == bytes(4));
    let file = folder.path().join("all");
    std::fs::write(&file, one).unwrap();
    let rows = read_trajectories(&file).unwrap();
    assert_eq!(rows.len(), 4500);
    assert!(rows.iter().enumerate().all(|(n, row)| row.messages[0].content == n.to_string()));
    assert!(rows[0].id.starts_with("x-1-1-") && rows[1500].id.starts_with("x-2-1-"), "{}", rows[1500].id);
}

#[test]
fn the_format_is_found_by_the_columns() {
    let user = json!([{"role": "user", "content": "q"}]);
    let cases = [
        ("alpaca", json!({"instruction": "i", "input": "", "output": "o"})),
        ("gsm8k", json!({"question": "q", "answer": "a\n#### 1"})),
        (
            "gsm8k_solutions",
            json!({"question": "q", "ground_truth": "A: 1", "s": {"is_correct": true, "solution": ""}}),
        ),
        ("jsonl", json!({"prompt": user, "answer": "1"})),
        ("openai", json!({"messages": user, "tools": []})),
        ("preferences", json!({"prompt": "q", "chosen": "a", "rejected": "b"})),
        ("sharegpt", json!({"conversations": [], "id": 1})),
        ("tau2", json!({"id": "0", "user_scenario": {}, "evaluation_criteria": {}})),
        ("toolrl", json!({"prompt": user, "reward_model": {"ground_truth": "<tool_call>"}})),
        ("toolrl", json!({"system": "s", "user": "u", "answer": []})),
        ("trl", json!({"prompt": "q", "completion": "a"})),
        ("verl", json!({"prompt": user, "reward_model": {"ground_truth": "1"}})),
    ];
    let formats: Vec<&'static dyn ImportFormat> = family().names().into_iter().filter_map(format).collect();
    for (name, row) in cases {
        let fitting: Vec<&str> =
            formats.iter().filter(|f| f.recognizes(row.as_object().unwrap())).map(|f| f.name()).collect();
        assert_eq!(fitting, [name], "{row}");
    }
    let found = |text: &str| {
        let (_folder, path) = written("rows.jsonl", text);
        {
            let files = files::source_files(&path, None, "train").unwrap();
            detect::detect(&files, &formats, &BTreeMap::new()).map(ImportFormat::name)
        }
    };
    assert_eq!(found("oops\n{\"prompt\": \"q\", \"response\": \"a\"}"), Ok("trl"));
    let error = found("{\"text\": \"a\"}").unwrap_err();
    assert!(error.message.contains("columns of these rows: text") && error.help.unwrap().contains("sharegpt"));
    assert!(found("").unwrap_err().message.contains("no row can be read"));
    let two = json!({"prompt": "q", "completion": "a", "answer": "1"}).to_string();
    assert!(found(&two).unwrap_err().message.contains("jsonl, trl"));
}

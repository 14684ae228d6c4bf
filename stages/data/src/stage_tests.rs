//! Tests this crate's stages one after another on real files, as an attempt runs them.

use crate::io;
use crate::registry::stages;
use crate::testing::parts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_api::{DiscardingCheckpoints, InputArtifact, SilentReporter, StageContext, StageReport};
use trainyard_core::{ArtifactKind, Digest, ErrorKind, Result};

/// A finished stage: its output folders by port and its metrics.
pub struct Done {
    folder: PathBuf,
    pub metrics: BTreeMap<String, f64>,
}

impl Done {
    pub fn output(&self, port: &str) -> PathBuf {
        self.folder.join(port)
    }
}

fn artifact(port: &str, folder: PathBuf) -> InputArtifact {
    let digest = Digest::of(port.as_bytes());
    InputArtifact {
        kind: ArtifactKind::Table,
        digest: digest.clone(),
        stage_digest: digest,
        folder,
        metadata: BTreeMap::new(),
    }
}

/// Runs a stage in a folder of `root`.
pub fn run(root: &Path, name: &str, kind: &str, config: Value, inputs: &[(&str, PathBuf)]) -> Result<Done> {
    let stages = stages(&parts());
    let stage = stages.iter().find(|s| s.info().name == kind).unwrap();
    let folder = root.join(name);
    let (reporter, checkpoints) = (Arc::new(SilentReporter), Arc::new(DiscardingCheckpoints));
    let context = StageContext::new(folder.join("scratch"), reporter, checkpoints);
    let mut context = StageContext { cpus: 2, ..context };
    std::fs::create_dir_all(&context.scratch).unwrap();
    for output in stage.info().outputs.iter().filter(|port| !port.is_family()) {
        std::fs::create_dir_all(folder.join(output.name)).unwrap();
        context.output_folders.insert(output.name.into(), folder.join(output.name));
    }
    for (port, folder) in inputs {
        context.inputs.entry((*port).to_string()).or_default().push(artifact(port, folder.clone()));
    }
    assert_eq!(stage.validate(&config), []);
    stage.run(&stage.complete(&config).unwrap(), &mut context)?;
    for metric in context.metrics.keys() {
        assert!(stage.info().metrics.metric(metric).is_some(), "`{kind}` does not declare metric `{metric}`");
    }
    Ok(Done { folder, metrics: context.metrics })
}

#[test]
fn problems_are_generated_filtered_and_selected() {
    let root = tempfile::tempdir().unwrap();
    let world = json!({"kind": "word-problems", "tools": ["calculator"]});
    let splits = json!({"demonstrations": {"levels": {"1": 40, "2": 20}}, "test": {"total": 25}});
    let made = run(
        root.path(),
        "made",
        "data/synthesize",
        json!({"method": "procedural", "environment": world, "splits": splits, "mistakes": 0.2}),
        &[],
    )
    .unwrap();
    assert_eq!((made.metrics["problems"], made.metrics["demonstrations"]), (85.0, 60.0));
    let test = run(
        root.path(),
        "test",
        "data/select",
        json!({"splits": ["test"], "where": "level <= 3", "per_level": 4}),
        &[("problems", made.output("problems"))],
    )
    .unwrap();
    assert_eq!(test.metrics["problems"], 12.0);
    let rules = json!([{"kind": "format"}, {"kind": "void_turn"}, {"kind": "answer"}, {"kind": "exact_duplicates"},
        {"kind": "decontaminate", "methods": ["canonical"]}, {"kind": "expression", "keep": "tool_errors = 0"}]);
    let inputs = [
        ("trajectories", made.output("demonstrations")),
        ("problems", made.output("problems")),
        ("evaluation", test.output("problems")),
    ];
    let filtered =
        run(root.path(), "filtered", "data/filter", json!({"rules": rules, "environment": world}), &inputs).unwrap();
    let mistakes = made.metrics["demonstrations_with_mistake"];
    assert_eq!((filtered.metrics["kept"], filtered.metrics["rejected_expression"]), (60.0 - mistakes, mistakes));
    let rejected = trainyard_tables::read_trajectories(&filtered.output("rejected").join("data.parquet")).unwrap();
    assert!(rejected.len() as f64 == mistakes && rejected.iter().all(|t| t.verdicts.len() == 6 && !t.verdicts[5].keep));
    assert_eq!(StageReport::read(&filtered.output("report")).unwrap().metrics["kept"].value, 60.0 - mistakes);
}

#[test]
fn imported_conversations_are_judged_by_the_environments_reading() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = root.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let conversation = |question: &str, text: &str| {
        json!({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": text}]}).to_string()
    };
    let chats =
        [conversation("How many?", "She has 72.\n#### 72"), conversation("How much?", "It is 5.\n#### 5")].join("\n");
    let problems =
        "{\"question\": \"How many?\", \"answer\": \"#### 72\"}\n{\"question\": \"How much?\", \"answer\": \"#### 6\"}";
    let import = |name: &str, format: &str, text: &str| {
        run(
            root.path(),
            name,
            "data/import",
            json!({"source": write(&format!("{name}.jsonl"), text), "format": format, "name": "own"}),
            &[],
        )
        .unwrap()
    };
    let (chats, problems) = (import("chats", "openai", &chats), import("problems", "gsm8k", problems));
    let inputs = [("trajectories", chats.output("trajectories")), ("problems", problems.output("problems"))];
    let config = json!({"rules": [{"kind": "answer"}], "environment": {"kind": "math-problems"}});
    let judged = run(root.path(), "judged", "data/filter", config, &inputs).unwrap();
    assert_eq!((judged.metrics["kept"], judged.metrics["rejected_answer"]), (1.0, 1.0));
    let kept = trainyard_tables::read_trajectories(&judged.output("kept").join("data.parquet")).unwrap();
    assert_eq!(kept[0].messages[0].content, "How many?");
}

#[test]
fn rows_name_their_sources_through_the_stages_that_keep_or_make_them() {
    let root = tempfile::tempdir().unwrap();
    let import = |name: &str, rows: &[Value]| {
        let source = root.path().join(format!("{name}.jsonl"));
        std::fs::write(&source, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
        run(root.path(), name, "data/import", json!({"source": source}), &[]).unwrap()
    };
    let problems = |done: &Done, port: &str| {
        let rows = io::read_many_problems(&[artifact(port, done.output(port))]).unwrap();
        rows.into_iter().map(|row| (row.id, row.parents)).collect::<Vec<_>>()
    };
    let trajectories = |done: &Done, port: &str| {
        let rows = io::read_many_trajectories(&[artifact(port, done.output(port))]).unwrap();
        rows.into_iter().map(|row| (row.id, row.parents)).collect::<Vec<_>>()
    };
    let solved = |n: u32| {
        let solution = format!("It is <<1+{n}={}>>{0}.\n#### {0}", n + 1);
        json!({"question": format!("What is 1 + {n}?"), "answer": solution})
    };
    let given = import("given", &[solved(1), solved(2), solved(3)]);
    let wired = [("problems", given.output("problems"))];
    let selected = run(root.path(), "selected", "data/select", json!({"where": "answer <> '2'"}), &wired).unwrap();
    let found = problems(&selected, "problems");
    assert_eq!(found, problems(&given, "problems")[1..]);
    assert_eq!([&found[0].1, &found[1].1], [&["given.jsonl:2"], &["given.jsonl:3"]]);

    let wired = [("problems", selected.output("problems"))];
    let config = json!({"method": "annotated"});
    let shown = run(root.path(), "shown", "data/synthesize", config, &wired).unwrap();
    assert_eq!(problems(&shown, "problems"), found, "given problems keep their sources");
    let expected: Vec<(String, Vec<String>)> =
        found.iter().map(|(id, _)| (format!("{id}-annotated"), vec![id.clone()])).collect();
    assert_eq!(trajectories(&shown, "demonstrations"), expected);

    let chat = |question: &str, answer: &str| json!({"prompt": question, "completion": answer});
    let chats = import("chats", &[chat("a?", "yes"), chat("b?", "write to ada@example.com")]);
    let wired = [("trajectories", chats.output("trajectories"))];
    let config = json!({"rules": [{"kind": "personal_data"}]});
    let kept = run(root.path(), "kept", "data/filter", config, &wired).unwrap();
    assert_eq!(kept.metrics["edited"], 1.0);
    let (before, after) = (trajectories(&chats, "trajectories"), trajectories(&kept, "kept"));
    assert_eq!(before, after, "an edited row keeps its id and its source");
    assert_eq!([&after[0].1, &after[1].1], [&["chats.jsonl:1"], &["chats.jsonl:2"]]);
}

#[test]
fn a_repeated_run_gives_equal_bytes() {
    let root = tempfile::tempdir().unwrap();
    let config = json!({"method": "procedural", "environment": {"kind": "word-problems", "tools": ["calculator"]},
        "splits": {"demonstrations": {"total": 30}}});
    let bytes = |name: &str| {
        let made = run(root.path(), name, "data/synthesize", config.clone(), &[]).unwrap();
        ["problems/data.parquet", "demonstrations/data.parquet", "report/report.json"]
            .map(|f| std::fs::read(made.folder.join(f)).unwrap())
    };
    assert_eq!(bytes("a"), bytes("b"));
}

#[test]
fn graded_solutions_become_labeled_steps() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("solutions.jsonl");
    std::fs::write(
        &file,
        concat!(
            r#"{"question": "q", "ground_truth": "<<1+1=2>>2\nA: 2", "x": {"is_correct": true, "#,
            r#""solution": "1+1=<<1+1=2>>2\nA: 2"}, "y": {"is_correct": false, "solution": "A: 3"}}"#,
        ),
    )
    .unwrap();
    let imported = run(
        root.path(),
        "imported",
        "data/import",
        json!({"source": file, "format": "gsm8k_solutions", "split": "test"}),
        &[],
    )
    .unwrap();
    assert_eq!((imported.metrics["solutions"], imported.metrics["problems"]), (2.0, 1.0));
    let labeled =
        run(root.path(), "labeled", "data/step_labels", json!({}), &[("solutions", imported.output("solutions"))])
            .unwrap();
    assert_eq!(
        (labeled.metrics["steps"], labeled.metrics["steps_labeled_outcome"], labeled.metrics["annotations_agreeing"]),
        (3.0, 2.0, 1.0)
    );
    let rows = trainyard_tables::read_trajectories(&labeled.output("trajectories").join("data.parquet")).unwrap();
    // A trajectory names its problem, and the problem the place of its solutions.
    let problems = io::read_many_problems(&[artifact("problems", labeled.output("problems"))]).unwrap();
    assert_eq!(problems[0].parents, ["solutions.jsonl:1"]);
    assert!(rows.iter().all(|t| t.parents == [problems[0].id.clone()]));
    assert_eq!(rows.iter().map(|t| *t.step_labels.as_ref().unwrap().last().unwrap()).collect::<Vec<_>>(), [1.0, 0.0]);
}

#[test]
fn empty_and_damaged_inputs_are_rejected_and_located() {
    let root = tempfile::tempdir().unwrap();
    let e =
        run(root.path(), "a", "data/import", json!({"source": root.path().join("none.jsonl"), "format": "gsm8k"}), &[])
            .err()
            .unwrap();
    assert!(e.kind == ErrorKind::Invalid && e.message.contains("none.jsonl"));
    let folder = root.path().join("damaged");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("data.parquet"), b"PAR1 but not really").unwrap();
    let e = run(root.path(), "b", "data/select", json!({}), &[("problems", folder)]).err().unwrap();
    assert!(e.kind == ErrorKind::Data && e.message.contains("data.parquet"), "{e}");
    let e = run(root.path(), "c", "data/filter", json!({}), &[]).err().unwrap();
    assert!(e.message.contains("no row"));
    assert!(io::read_many_problems(&[]).unwrap().is_empty());
}

#[test]
fn stored_responses_are_reused_by_another_stage() {
    use trainyard_testkit::chat::{MockChatServer, says};
    let root = tempfile::tempdir().unwrap();
    let chat = json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]});
    std::fs::write(root.path().join("chats.jsonl"), format!("{chat}\n")).unwrap();
    let source = root.path().join("chats.jsonl");
    let chats = run(root.path(), "chats", "data/import", json!({"source": source}), &[]).unwrap();
    let served = MockChatServer::start(|body, _| says(body, "{\"reason\": \"good\", \"keep\": true}"));
    let model = json!({"endpoint": served.url(), "model": "m"});
    let options = json!({"rules": [{"kind": "judge", "rubric": "Keep all.", "model": model}]});
    let rows = ("trajectories", chats.output("trajectories"));
    let first = run(root.path(), "first", "data/filter", options.clone(), std::slice::from_ref(&rows)).unwrap();
    let given = [rows.clone(), ("requests", first.output("requests"))];
    let second = run(root.path(), "second", "data/filter", options.clone(), &given).unwrap();
    assert_eq!((served.requests(), second.metrics["requests"]), (1, 1.0));
    let read = |done: &Done| std::fs::read(done.output("requests").join("data.parquet")).unwrap();
    assert_eq!(read(&first), read(&second), "the same answers are the same bytes");
    let given = [rows.clone(), ("requests", chats.output("trajectories"))];
    let error = run(root.path(), "third", "data/filter", options, &given).err().unwrap();
    assert!(error.kind == ErrorKind::Data && error.message.contains("input `requests`"), "{error}");
}

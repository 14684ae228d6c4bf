//! Tests round trips: `data/import` reads an export as the same rows, except for fields that the format cannot express.

use super::*;
use crate::import::tests::read_file;
use crate::import::{ImportContext, ImportedRows};
use crate::tool_text::{RawToolCall, assistant};
use proptest::collection::vec;
use proptest::option::of as maybe;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::ArtifactKind;
use trainyard_tables::{
    Message, OrderedValue, Problem, StopReason, Trajectory, ordered, ordered_columns, write_problems,
    write_trajectories,
};

/// Writes rows in a format and form, and returns the file, the rows, and the omissions.
fn written(
    folder: &Path,
    kind: ArtifactKind,
    form: ExportForm,
    name: &str,
) -> (std::path::PathBuf, Vec<OrderedValue>, ExportOmissions) {
    let format = *registry::family().read(&serde_json::json!(name)).unwrap().build(&()).unwrap();
    let (mut rows, mut omissions) = (Vec::new(), ExportOmissions::default());
    let source = ExportSource { table: &folder.join("data.parquet"), kind };
    export(source, form, format, &mut omissions, &mut |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    let file = folder.join(format!("rows.{}", format.file().extension()));
    match format.file() {
        FileKind::Parquet => ordered_columns::write_parquet(&file, &rows).map(drop).unwrap(),
        FileKind::InspectLog => {
            inspect::write_log(&file, |put| rows.iter().cloned().try_for_each(put).map(|()| rows.len() as u64))
                .map(drop)
                .unwrap();
        }
        FileKind::JsonLines => {
            let mut out = Vec::new();
            rows.iter().for_each(|row| ordered::write_line(row, &mut out).unwrap());
            std::fs::write(&file, out).unwrap();
        }
    }
    (file, rows, omissions)
}

fn reading() -> ImportContext {
    ImportContext { name: "n".into(), split: "train".into(), ..ImportContext::default() }
}

fn back(file: &Path, name: &str) -> ImportedRows {
    read_file(name, file, &reading()).unwrap()
}

/// Generates text with special characters of JSON, Jinja and markup.
fn text() -> impl Strategy<Value = String> {
    let odd =
        ["", " ", "a\nb", "é \u{1f9ee} 数", "\"q\" \\n {% x %}", "<|end|>", "error: no", "```{}```", "\u{2028}\0\t"];
    let odd = proptest::sample::select(odd.to_vec()).prop_map(String::from);
    prop_oneof![3 => "[a-z0-9 .]{1,12}", 2 => odd, 1 => ".{0,9}"]
}

fn words() -> impl Strategy<Value = String> {
    text().prop_filter("says something and holds no call", |t| !t.trim().is_empty() && !t.contains("tool_call"))
}

fn call(with_id: bool) -> impl Strategy<Value = RawToolCall> {
    ("[a-z_]{1,6}", maybe((any::<i32>(), text())), "[a-z0-9]{3}").prop_map(move |(name, arguments, id)| {
        // Parsed objects sort their keys, and are printed without spaces.
        let arguments =
            arguments.map_or("{}".into(), |(n, t)| serde_json::json!({"a": {"x": [n]}, "b": t}).to_string());
        RawToolCall { id: with_id.then_some(id), name, arguments }
    })
}

/// Generates an agent's turn: its text, its calls, their results, whether the first call failed, and the reasoning.
fn turn(
    with_id: bool,
    with_words: bool,
) -> impl Strategy<Value = (String, Vec<RawToolCall>, Vec<String>, bool, Option<String>)> {
    let words_before = if with_words {
        maybe(words()).prop_map(Option::unwrap_or_default).boxed()
    } else {
        Just(String::new()).boxed()
    };
    (words_before, vec(call(with_id), 1..3), vec(text(), 1..3), any::<bool>(), maybe(words()))
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    ids: bool,
    words: bool,
    reasoning: bool,
    mistakes: bool,
}

fn conversation(shape: Shape) -> impl Strategy<Value = Trajectory> {
    let turns = vec((turn(shape.ids, shape.words), maybe(words())), 0..4);
    (maybe(words()), words(), turns, words(), any::<bool>()).prop_map(
        move |(system, question, turns, answer, tools)| {
            let mut messages: Vec<Message> = system.map(|text| Message::new("system", text)).into_iter().collect();
            messages.push(Message::new("user", question));
            let (mut errors, mut calls) = (0, 0);
            let count = turns.len() as u32 + 1;
            for ((text, calls_made, results, failed, reasoning), reply) in turns {
                let failed = failed && shape.mistakes;
                errors += u32::from(failed);
                calls += calls_made.len() as u32;
                let reasoning_content = reasoning.filter(|_| shape.reasoning);
                messages.push(Message { reasoning_content, ..assistant(&text, &calls_made) });
                for (i, result) in results.into_iter().enumerate() {
                    let content = if failed && i == 0 { "NameError: x".to_string() } else { format!("it is {result}") };
                    let id = calls_made.get(i).and_then(|call| call.id.clone());
                    messages.push(Message { tool_call_id: id, ..Message::new("tool", content) });
                }
                messages.extend(reply.map(|text| Message::new("user", text)));
            }
            messages.push(Message::new("assistant", answer.clone()));
            let offered = concat!(
                r#"[{"type": "function", "function": {"name": "z", "a": 1}}, "#,
                r#"{"type": "function", "function": {"name": "b"}}]"#
            );
            Trajectory {
                stop_reason: StopReason::Answer,
                answer: Some(answer),
                turns: count,
                tool_calls: calls,
                tool_errors: errors,
                environment: "math-problems".into(),
                tools: tools.then(|| offered.to_string()),
                messages,
                ..Trajectory::default()
            }
        },
    )
}

/// Removes ids and the place in the file, which an import generates.
fn plain(rows: Vec<Trajectory>) -> Vec<Trajectory> {
    let plain = |row| Trajectory { id: String::new(), problem_id: String::new(), parents: Vec::new(), ..row };
    rows.into_iter().map(plain).collect()
}

const EVERYTHING: Shape = Shape { ids: true, words: true, reasoning: true, mistakes: true };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn trl_gives_conversations_back_whole(rows in vec(conversation(EVERYTHING), 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        write_trajectories(&folder.path().join("data.parquet"), &rows).unwrap();
        let (file, _, omissions) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, "trl");
        prop_assert_eq!(omissions.counts().count(), 0);
        prop_assert_eq!(plain(back(&file, "trl").trajectories), rows);
    }

    #[test]
    fn openai_gives_back_all_but_reasoning(rows in vec(conversation(Shape { reasoning: false, ..EVERYTHING }), 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        write_trajectories(&folder.path().join("data.parquet"), &rows).unwrap();
        let (file, exported, omissions) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, "openai");
        prop_assert_eq!(omissions.counts().count(), 0);
        prop_assert_eq!(plain(back(&file, "openai").trajectories), rows.clone());
        // Weights mark the turns that training would leave out.
        let weights = exported.iter().map(|row| row.to_json().unwrap().matches("\"weight\":0").count());
        let errors: Vec<usize> = rows.iter().map(|row| row.tool_errors as usize).collect();
        prop_assert_eq!(weights.collect::<Vec<_>>(), errors);
    }

    #[test]
    fn sharegpt_gives_back_turns_and_calls(
        rows in vec(conversation(Shape { ids: false, words: false, reasoning: false, mistakes: false }), 1..5)
    ) {
        let folder = tempfile::tempdir().unwrap();
        write_trajectories(&folder.path().join("data.parquet"), &rows).unwrap();
        let (file, _, omissions) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, "sharegpt");
        prop_assert_eq!(omissions.counts().count(), 0);
        prop_assert_eq!(plain(back(&file, "sharegpt").trajectories), rows);
    }

    #[test]
    fn verl_round_trip_keeps_message_texts(rows in vec(conversation(Shape { reasoning: true, ..EVERYTHING }), 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        write_trajectories(&folder.path().join("data.parquet"), &rows).unwrap();
        let (file, _, omissions) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, "verl");
        let calls: u64 = rows.iter().map(|row| u64::from(row.tool_calls)).sum();
        prop_assert_eq!(omissions.count("the structure of calls (their text is kept)"), calls);
        let plain = |m: &Message| Message { tool_calls: None, ..m.clone() };
        let texts = |rows: &[Trajectory]| -> Vec<Vec<Message>> {
            rows.iter().map(|row| row.messages.iter().map(plain).collect()).collect()
        };
        prop_assert_eq!(texts(&back(&file, "openai").trajectories), texts(&rows));
    }

    #[test]
    fn pairs_come_back_from_trl(
        pairs in vec((conversation(Shape { mistakes: false, ..EVERYTHING }), words(), words()), 1..5)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Vec::new();
        for (group, (row, better, worse)) in pairs.into_iter().enumerate() {
            for (sample, answer) in [(0, format!("+{better}")), (1, format!("-{worse}"))] {
                let mut messages = row.messages.clone();
                messages.last_mut().unwrap().content = answer.clone();
                let reward = f64::from(1 - sample);
                rows.push(Trajectory {
                    messages, group: group as u32, sample, reward, answer: Some(answer),
                    rewards: BTreeMap::from([(crate::pairs::REWARD.to_string(), reward)]), ..row.clone()
                });
            }
        }
        write_trajectories(&folder.path().join("data.parquet"), &rows).unwrap();
        let form = ExportForm::Preference;
        let (file, exported, omissions) = written(folder.path(), ArtifactKind::Trajectories, form, "trl");
        prop_assert_eq!((exported.len(), omissions.counts().count()), (rows.len() / 2, 0));
        prop_assert_eq!(plain(back(&file, "preferences").preferences), rows);
    }

    #[test]
    fn problems_come_back_from_every_format(
        drawn in vec((words(), text(), 0u32..9, maybe(words()), maybe(words())), 1..6), parquet in any::<bool>()
    ) {
        type Drawn = (String, String, u32, Option<String>, Option<String>);
        let problem = |(i, (question, answer, level, reference, system)): (usize, Drawn)| {
            let system = system.map(|text| Message::new("system", text));
            Problem {
                id: format!("p{i}"), messages: system.into_iter().chain([Message::new("user", question)]).collect(),
                answer, verifier: r#"{"kind":"text"}"#.into(), environment: "word-problems".into(), level,
                source: "n".into(), split: "rl".into(), canonical: format!("c{i}"), reference, meta: None,
                parents: Vec::new(),
            }
        };
        let problems: Vec<Problem> = drawn.into_iter().enumerate().map(problem).collect();
        let folder = tempfile::tempdir().unwrap();
        write_problems(&folder.path().join("data.parquet"), &problems).unwrap();
        let (name, read_as) = if parquet { ("verl", "verl") } else { ("trl", "jsonl") };
        let (file, _, omissions) = written(folder.path(), ArtifactKind::Problems, ExportForm::Prompts, name);
        prop_assert_eq!(omissions.counts().count(), 0);
        // `jsonl` takes the name of the source from its options, so it keeps the column of that name.
        let meta = (!parquet).then(|| r#"{"source":"n"}"#.to_string());
        let place = |i: usize| {
            let file = file.file_name().unwrap().to_string_lossy();
            vec![format!("{file}:{}", i + 1)]
        };
        let problems = problems.into_iter().enumerate();
        let expected: Vec<Problem> = problems
            .map(|(i, problem)| Problem { meta: meta.clone(), parents: place(i), ..problem })
            .collect();
        prop_assert_eq!(back(&file, read_as).problems, expected);
    }
}

#[test]
fn further_columns_are_written_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let meta = r#"{"id":"mine","lang":"de","source":"n","tags":["a"]}"#.to_string();
    let problem = Problem {
        id: "p".into(),
        messages: vec![Message::new("user", "q")],
        source: "n".into(),
        verifier: "{}".into(),
        meta: Some(meta.clone()),
        ..Problem::default()
    };
    write_problems(&folder.path().join("data.parquet"), &[problem]).unwrap();
    let (_, rows, omissions) = written(folder.path(), ArtifactKind::Problems, ExportForm::Prompts, "trl");
    let row: serde_json::Value = serde_json::from_str(&rows[0].to_json().unwrap()).unwrap();
    assert_eq!((&row["id"], &row["meta_id"], &row["lang"]), (&"p".into(), &"mine".into(), &"de".into()));
    assert!(row["tags"][0] == "a" && row["source"] == "n" && row.get("meta_source").is_none(), "{row}");
    assert_eq!(omissions.counts().count(), 0);
    let messages = vec![Message::new("user", "q"), Message::new("assistant", "a")];
    let row = Trajectory { messages, turns: 1, meta: Some(meta.clone()), ..Trajectory::default() };
    write_trajectories(&folder.path().join("data.parquet"), &[row]).unwrap();
    for (name, read_as) in [("trl", "openai"), ("openai", "openai"), ("sharegpt", "sharegpt"), ("verl", "openai")] {
        let (file, _, _) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, name);
        assert_eq!(back(&file, read_as).trajectories[0].meta.as_ref(), Some(&meta), "{name}");
    }
}

#[test]
fn omitted_fields_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let call = RawToolCall { id: Some("c1".into()), name: "f".into(), arguments: "{}".into() };
    let turn = Message { reasoning_content: Some("hm".into()), ..assistant("I call.", &[call]) };
    let result = Message { name: Some("f".into()), tool_call_id: Some("c1".into()), ..Message::new("tool", "7") };
    let messages = vec![Message::new("user", "q"), turn, result, Message::new("assistant", "7")];
    let row = Trajectory { messages, turns: 2, ..Trajectory::default() };
    let lost = Trajectory { status: trainyard_tables::EpisodeStatus::Infrastructure, ..row.clone() };
    let silent = Trajectory { messages: vec![Message::new("user", "q")], ..row.clone() };
    write_trajectories(&folder.path().join("data.parquet"), &[row, lost, silent]).unwrap();
    let of = |name: &str| {
        let (_, rows, omissions) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, name);
        (
            rows[0].to_json().unwrap(),
            omissions.counts().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>(),
        )
    };
    let dropped = ["1 rows with infrastructure failures", "1 rows without an agent message"];
    let (row, omissions) = of("trl");
    assert_eq!(omissions, dropped);
    assert!(
        row.contains(r#""content":"I call.","reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function""#),
        "{row}"
    );
    let (row, omissions) = of("openai");
    assert_eq!(omissions[..2], ["1 names of tools' results", "1 reasoning of messages"]);
    assert!(row.contains(r#"{"role":"tool","content":"7","tool_call_id":"c1"}"#), "{row}");
    let (row, omissions) = of("sharegpt");
    assert!(row.contains(
        r#"{"from":"gpt","value":"I call.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"}"#
    ));
    assert!(
        omissions.contains(&"2 ids of calls".to_string()) && omissions.contains(&"1 names of messages".to_string()),
        "{omissions:?}"
    );
}

#[test]
fn openai_assigns_missing_call_ids() {
    let folder = tempfile::tempdir().unwrap();
    let call = || RawToolCall { id: None, name: "f".into(), arguments: "{}".into() };
    let messages = vec![
        Message::new("user", "q"),
        assistant("", &[call(), call()]),
        Message::new("tool", "1"),
        Message::new("tool", "2"),
        Message::new("assistant", "3"),
    ];
    write_trajectories(&folder.path().join("data.parquet"), &[Trajectory { messages, ..Trajectory::default() }])
        .unwrap();
    let (file, ..) = written(folder.path(), ArtifactKind::Trajectories, ExportForm::Sft, "openai");
    let row = back(&file, "openai").trajectories.remove(0);
    assert_eq!(row.messages[2].tool_call_id.as_deref(), Some("call_1"));
    assert_eq!(row.messages[3].tool_call_id.as_deref(), Some("call_2"));
    assert!(row.messages[1].tool_calls.as_ref().unwrap().contains(r#""id": "call_2""#));
}

#[test]
fn table_without_rows_of_the_form_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("data.parquet");
    let messages = vec![Message::new("user", "q"), Message::new("assistant", "a")];
    write_trajectories(&table, &[Trajectory { messages, ..Trajectory::default() }]).unwrap();
    let source = ExportSource { table: &table, kind: ArtifactKind::Trajectories };
    assert_eq!(source.forms().unwrap(), [ExportForm::Sft, ExportForm::Tokens, ExportForm::Steps]);
    for (form, help) in [
        (ExportForm::Tokens, "data/tokenize"),
        (ExportForm::Steps, "data/step_labels"),
        (ExportForm::Preference, "data/pairs"),
    ] {
        let none = export(source, form, &trl::TrlExport, &mut ExportOmissions::default(), &mut |_| Ok(())).unwrap_err();
        assert!(none.help.unwrap().contains(help), "{form:?}");
    }
}

//! Compares searches with a plain reading of all messages.

use super::build::{IndexWriter, build, searched_text};
use super::filters::SearchFilters;
use super::format::VERSION;
use super::index::{IndexBytes, MessageIndex};
use super::pattern::{PatternKind, SearchPattern};
use super::scan::{FoundMessages, scan};
use super::trigrams::fold;
use proptest::prelude::*;
use std::fs::File;
use std::path::Path;
use trainyard_core::{ErrorKind, Result};
use trainyard_tables::{AnswerCheck, Message, TableSource, Trajectory, Verdict, write_trajectories};

fn open(path: &Path) -> Result<MessageIndex> {
    MessageIndex::open(IndexBytes::of_file(File::open(path).unwrap())?)
}

fn indexed(rows: &[Trajectory]) -> MessageIndex {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let mut writer = IndexWriter::create(&path).unwrap();
    rows.iter().for_each(|row| writer.add(row).unwrap());
    writer.finish().unwrap();
    open(&path).unwrap()
}

fn row(id: usize, messages: &[(&str, &str)]) -> Trajectory {
    Trajectory {
        id: format!("t{id}"),
        messages: messages.iter().map(|(role, text)| Message::new(role, *text)).collect(),
        ..Trajectory::default()
    }
}

fn search(index: &MessageIndex, text: &str, kind: PatternKind, filters: &SearchFilters) -> FoundMessages {
    let pattern = SearchPattern::new(text, kind).unwrap();
    let filters = filters.of_index(&index.footer);
    filters.map_or_else(FoundMessages::default, |filters| scan(index, &pattern, &filters, usize::MAX).unwrap())
}

/// Returns row and number of each message with a match, by the index and by reading all messages.
fn both_ways(rows: &[Trajectory], text: &str, kind: PatternKind) -> [Vec<(u64, u32)>; 2] {
    let found = search(&indexed(rows), text, kind, &SearchFilters::default());
    let regex = (kind == PatternKind::Regex).then(|| regex::Regex::new(text).unwrap());
    let is_match = |message: &Message| match (kind, &regex) {
        (_, Some(regex)) => regex.is_match(&searched_text(message)),
        (PatternKind::Text, _) => fold(&searched_text(message)).contains(&*fold(text)),
        _ => searched_text(message).contains(text),
    };
    let mut plain = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        for (number, message) in row.messages.iter().enumerate().filter(|(_, message)| is_match(message)) {
            let _ = message;
            plain.push((at as u64, number as u32));
        }
    }
    assert_eq!(found.messages, plain.len() as u64);
    let mut with_match: Vec<u64> = plain.iter().map(|(row, _)| *row).collect();
    with_match.dedup();
    assert_eq!(found.rows, with_match.len() as u64);
    [found.first.iter().map(|found| (found.row, found.message)).collect(), plain]
}

/// Texts with letters whose cases differ in length or number, so that patterns often match.
const LETTERS: &str = "[abAB ÄäßſsSKkİiΣσς1]{0,12}";

proptest! {
    #[test]
    fn a_search_finds_what_a_plain_reading_finds(
        texts in prop::collection::vec(prop::collection::vec(LETTERS, 0..5), 0..60),
        pattern in "[abAB ÄäßſsSKkİiΣσς1]{1,5}",
        is_exact: bool,
    ) {
        let rows: Vec<Trajectory> = texts.iter().enumerate().map(|(id, texts)| {
            row(id, &texts.iter().map(|text| ("user", text.as_str())).collect::<Vec<_>>())
        }).collect();
        let kind = if is_exact { PatternKind::ExactText } else { PatternKind::Text };
        let [found, plain] = both_ways(&rows, &pattern, kind);
        prop_assert_eq!(found, plain);
        for regex in [regex_syntax::escape(&pattern), format!("(?i){}", regex_syntax::escape(&pattern))] {
            let [found, plain] = both_ways(&rows, &regex, PatternKind::Regex);
            prop_assert_eq!(found, plain, "{}", regex);
        }
    }

    #[test]
    fn an_expression_finds_what_a_plain_reading_finds(
        texts in prop::collection::vec("[abcxyz]{0,10}", 0..200),
        literals in prop::collection::vec("[abcxyz]{1,4}", 2..4),
        join in prop::sample::select(vec!["|", ".*", "[a-c]+", "?", "(xy)*", "$|^", "{2}"]),
        is_insensitive: bool,
    ) {
        let rows: Vec<Trajectory> = texts.iter().enumerate().map(|(id, text)| row(id, &[("user", text)])).collect();
        let regex = format!("{}{}", if is_insensitive { "(?i)" } else { "" }, literals.join(join));
        let [found, plain] = both_ways(&rows, &regex, PatternKind::Regex);
        prop_assert_eq!(found, plain, "{}", regex);
    }
}

#[test]
fn several_blocks_and_segments_are_searched() {
    // 1,024 blocks of 64 messages are a segment; a row has three messages, so rows continue in the next segment.
    let count = 30_000;
    let texts: Vec<String> = (0..count).map(|i| format!("number {i} of the rows")).collect();
    let rows: Vec<Trajectory> =
        (0..count).map(|i| row(i, &[("user", &texts[i]), ("assistant", "yes"), ("user", "thanks, row")])).collect();
    let index = indexed(&rows);
    assert_eq!((index.footer.rows, index.footer.messages, index.footer.segments.len()), (30_000, 90_000, 2));
    let count = |text: &str| {
        let found = search(&index, text, PatternKind::Text, &SearchFilters::default());
        (found.messages, found.rows)
    };
    assert_eq!(count("NUMBER 29999 of"), (1, 1));
    assert_eq!(count("number 2999"), (11, 11));
    assert_eq!(count("row"), (60_000, 30_000), "each row once, also one in two segments");
    assert_eq!(count("nowhere"), (0, 0));
    let pattern = SearchPattern::new("thanks", PatternKind::Text).unwrap();
    let filters = SearchFilters::default().of_index(&index.footer).unwrap();
    let found = scan(&index, &pattern, &filters, 5).unwrap();
    assert_eq!(found.first.iter().map(|found| found.row).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(found.messages, 30_000);
}

#[test]
fn a_table_is_indexed_with_the_facts_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("data.parquet"), folder.path().join("index"));
    let verdict = |rule: &str, keep| Verdict { rule: rule.into(), keep, reason: String::new() };
    let call = Message { tool_calls: Some(r#"[{"name": "calculator"}]"#.into()), ..Message::new("assistant", "") };
    let thought = Message { reasoning_content: Some("let me think".into()), ..Message::new("assistant", "It is 5.") };
    let right = Trajectory {
        reward: 1.0,
        update: Some(40),
        answer_check: Some(AnswerCheck::whole("5", "5", "numeric", true)),
        messages: vec![Message::new("user", "What is 2 + 3?"), call, thought],
        verdicts: vec![verdict("length", true), verdict("dedup", false)],
        ..row(0, &[])
    };
    let other = Trajectory { reward: -0.5, ..row(1, &[("user", "What is it?"), ("assistant", "I think 5.")]) };
    write_trajectories(&data, &[right, other]).unwrap();
    build(&TableSource::from(&data), &path).unwrap();
    let index = open(&path).unwrap();
    assert_eq!((index.footer.rows, index.footer.messages), (2, 5));
    assert_eq!(index.footer.roles, ["user", "assistant"]);
    assert_eq!(index.footer.rules, ["length", "dedup"]);
    let places = |text: &str, filters: SearchFilters| -> Vec<(u64, u32)> {
        let found = search(&index, text, PatternKind::Text, &filters);
        found.first.iter().map(|found| (found.row, found.message)).collect()
    };
    let all = SearchFilters::default;
    assert_eq!(places("think", all()), [(0, 2), (1, 1)]);
    assert_eq!(places("CALCULATOR", all()), [(0, 1)]);
    assert_eq!(places("5", SearchFilters { verdict: "right".parse().ok(), ..all() }), [(0, 2)]);
    assert_eq!(places("5", SearchFilters { verdict: "wrong".parse().ok(), ..all() }), []);
    assert_eq!(places("what", SearchFilters { verdict: "dedup".parse().ok(), ..all() }), [(0, 0)]);
    assert_eq!(places("what", SearchFilters { verdict: "length".parse().ok(), ..all() }), []);
    assert_eq!(places("what", SearchFilters { reward: "..0".parse().ok(), ..all() }), [(1, 0)]);
    assert_eq!(places("what", SearchFilters { step: "40..".parse().ok(), ..all() }), [(0, 0)]);
    assert_eq!(places("what", SearchFilters { step: "41..".parse().ok(), ..all() }), []);
    assert_eq!(places("is", SearchFilters { role: Some("assistant".into()), ..all() }), [(0, 2)]);
    let found = search(&index, "think", PatternKind::Text, &all());
    assert_eq!((found.first[0].id.as_str(), found.first[0].reward, found.first[0].update), ("t0", 1.0, Some(40)));
    assert_eq!(found.first[1].excerpt.before, "I ");
}

#[test]
fn damaged_and_foreign_indexes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let mut writer = IndexWriter::create(&path).unwrap();
    writer.add(&row(0, &[("user", "a message that is found")])).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for end in 0..bytes.len() {
        std::fs::write(&path, &bytes[..end]).unwrap();
        assert_eq!(open(&path).err().unwrap().kind, ErrorKind::Data, "{end} bytes");
    }
    let pattern = SearchPattern::new("message", PatternKind::Text).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        std::fs::write(&path, &changed).unwrap();
        let found = open(&path).and_then(|index| {
            let filters = SearchFilters::default().of_index(&index.footer).unwrap();
            scan(&index, &pattern, &filters, 9)
        });
        match found {
            Err(error) => assert_eq!(error.kind, ErrorKind::Data, "byte {at}"),
            Ok(found) => assert_eq!(found.messages, 1, "byte {at}: a field that does not count"),
        }
    }
    let mut older = bytes;
    older[8..12].copy_from_slice(&(VERSION - 1).to_le_bytes());
    std::fs::write(&path, &older).unwrap();
    assert_eq!(open(&path).err().unwrap().message, "it has format 0, and this program reads format 1");
}

//! Groups the rows that may be paired by problem and prompt.
//!
//! Of each row its number and its value are kept (24 bytes), and while the rows are read also the hash of its text (16
//! bytes in a hash set) and whether it is selected (1 byte). Of each group its problem and the hash of its prompt are
//! kept.

use super::config::{PairCriterion, PairsConfig};
use crate::hash::xxh3_128;
use crate::row_files::RowFiles;
use crate::row_selection::RowSelection;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::{self, Debug, Formatter, Write as _};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{EpisodeStatus, Message, Trajectory, decode_part};

/// Columns of the prompt of a row.
pub const PROMPT_COLUMNS: [&str; 3] = ["messages", "token_ids", "prompt_tokens"];
/// Columns of the value of a row.
pub const VALUE_COLUMNS: [&str; 3] = ["reward", "rewards", "step_scores"];

/// A row that may be paired.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CandidateRow {
    /// Number of the row's group.
    group: u32,
    /// Number of the row in the input.
    pub row: usize,
    /// Value under the criterion of the options.
    pub value: f64,
}

impl CandidateRow {
    /// Returns the number of the row's group.
    pub fn group(self) -> u32 {
        self.group
    }
}

/// Rows of one problem and prompt: two rows answer the same question only if both are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CandidateGroup<'a> {
    /// Number of the group, in the order of first rows.
    pub number: u32,
    /// Id of the problem.
    pub problem: &'a str,
    /// Rows in the order of the input; at least one.
    pub rows: &'a [CandidateRow],
}

/// Rows that may be paired, and counts of the others.
#[derive(Debug, Default)]
pub struct PairCandidates {
    problems: Vec<String>,
    /// Number of each group's problem.
    problem_of_group: Vec<u32>,
    /// Sorted by group.
    rows: Vec<CandidateRow>,
    /// Number of rows that were read.
    pub read: usize,
    /// Number of rows with the text of an earlier one of the same problem.
    pub repeated: usize,
    /// Number of excluded rows: infrastructure failures, no value, rejected by `where`.
    pub left_out: usize,
}

impl PairCandidates {
    /// Returns the groups, by number.
    pub fn groups(&self) -> impl Iterator<Item = CandidateGroup<'_>> {
        self.rows.chunk_by(|a, b| a.group == b.group).map(|rows| {
            let number = rows[0].group;
            CandidateGroup { number, problem: self.problem(number), rows }
        })
    }
    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.problem_of_group.len()
    }
    /// Returns the id of a group's problem.
    pub fn problem(&self, group: u32) -> &str {
        &self.problems[self.problem_of_group[group as usize] as usize]
    }
}

/// Reads files and groups their rows by problem and prompt. `scratch` is a folder for a temporary file.
///
/// Errors: those of reading; invalid, for an invalid expression; data, if no row has the component.
pub fn read(files: &RowFiles<'_, Trajectory>, config: &PairsConfig, scratch: &Path) -> Result<PairCandidates> {
    let mut selection = RowSelection::all(files)?;
    if let Some(expression) = &config.r#where {
        selection.retain_where(expression, scratch)?;
    }
    expect_component(files, config)?;
    let mut collector = CandidateCollector::new(config);
    let columns = ["problem_id", "status"].iter().chain(&PROMPT_COLUMNS).chain(&VALUE_COLUMNS);
    let columns: Vec<String> = columns.map(ToString::to_string).collect();
    let mut numbers = selection.numbers();
    for batch in selection.batches(Some(&columns)) {
        let (path, batch) = batch?;
        for (row, number) in decode_part::<Trajectory>(path, &batch)?.iter().zip(&mut numbers) {
            collector.add(row, number)?;
        }
    }
    let mut candidates = collector.finish();
    candidates.read = selection.mask().len();
    candidates.left_out += candidates.read - selection.count();
    Ok(candidates)
}

/// Collects the candidates in the order of the input. Hash maps are used for lookups only, never iterated.
struct CandidateCollector<'a> {
    config: &'a PairsConfig,
    found: PairCandidates,
    problems: BTreeMap<String, u32>,
    /// Groups by problem and hash of the prompt.
    groups: HashMap<(u32, u128), u32>,
    /// Hashes of groups and answers.
    texts: HashSet<u128>,
    text: String,
}

impl<'a> CandidateCollector<'a> {
    fn new(config: &'a PairsConfig) -> Self {
        let (problems, groups, texts) = (BTreeMap::new(), HashMap::new(), HashSet::new());
        Self { config, found: PairCandidates::default(), problems, groups, texts, text: String::new() }
    }
    fn add(&mut self, row: &Trajectory, number: usize) -> Result<()> {
        let value = value(row, self.config).filter(|_| row.status == EpisodeStatus::Ok);
        let Some(value) = value else {
            self.found.left_out += 1;
            return Ok(());
        };
        let problem = self.problem(&row.problem_id);
        let (prompt, answer) = self.hashes(row);
        let known = self.groups.get(&(problem, prompt)).copied();
        let group = known.map_or_else(|| u32::try_from(self.found.problem_of_group.len()), Ok);
        let group = group.map_err(|_| Error::data("the input has more than 4 billion prompts"))?;
        let text = [&group.to_le_bytes()[..], &answer.to_le_bytes()[..]].concat();
        if known.is_none() {
            self.groups.insert((problem, prompt), group);
            self.found.problem_of_group.push(problem);
        }
        if self.texts.insert(xxh3_128(&text, 0)) {
            self.found.rows.push(CandidateRow { group, row: number, value });
        } else {
            self.found.repeated += 1;
        }
        Ok(())
    }
    fn finish(mut self) -> PairCandidates {
        // Rows of a group stay in the order of the input.
        self.found.rows.sort_by_key(|row| row.group);
        self.found
    }

    fn problem(&mut self, id: &str) -> u32 {
        if let Some(number) = self.problems.get(id) {
            return *number;
        }
        let number = self.found.problems.len() as u32;
        self.problems.insert(id.to_string(), number);
        self.found.problems.push(id.to_string());
        number
    }
    /// Returns the hashes of the prompt and the answer.
    fn hashes(&mut self, row: &Trajectory) -> (u128, u128) {
        let (prompt, answer) = texts_of(row);
        let mut hash = |text: RowText<'_>| {
            self.text.clear();
            // Writing to a text cannot fail.
            let _ = write!(self.text, "{text:?}");
            xxh3_128(self.text.as_bytes(), 0)
        };
        (hash(prompt), hash(answer))
    }
}

/// Returns the value of a row under the criterion of the options, or `None` if the row has no such value.
pub fn value(row: &Trajectory, config: &PairsConfig) -> Option<f64> {
    let scores = || row.step_scores.as_deref().filter(|scores| !scores.is_empty());
    let score = match (config.by, &config.component) {
        (PairCriterion::Reward, None) => Some(row.reward),
        (PairCriterion::Reward, Some(component)) => row.rewards.get(component).copied(),
        (PairCriterion::ProcessMin, _) => {
            scores().map(|all| all.iter().copied().fold(f64::INFINITY, |a, b| a.min(b.into())))
        }
        (PairCriterion::ProcessProduct, _) => scores().map(|all| all.iter().map(|s| f64::from(*s)).product()),
        (PairCriterion::ProcessLast, _) => scores().and_then(|all| all.last()).map(|score| f64::from(*score)),
    };
    score.filter(|score| score.is_finite())
}

fn expect_component(files: &RowFiles<'_, Trajectory>, config: &PairsConfig) -> Result<()> {
    let Some(component) = &config.component else { return Ok(()) };
    let (mut names, mut has_rows) = (BTreeSet::new(), false);
    for batch in files.batches(Some(&["rewards".to_string()])) {
        let (path, batch) = batch?;
        for row in decode_part::<Trajectory>(path, &batch)? {
            if row.rewards.contains_key(component) {
                return Ok(());
            }
            has_rows = true;
            names.extend(row.rewards.into_keys());
        }
    }
    if !has_rows {
        return Ok(());
    }
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let known =
        if names.is_empty() { "the rows have no components".to_string() } else { format!("they have: {names}") };
    Err(Error::data(format!("no row of `trajectories` has the reward component `{component}`"))
        .help(format!("name another `component`, or leave it out for the reward; {known}")))
}

/// Returns the text of a row's prompt, by which groups of one problem are sorted.
pub fn prompt(row: &Trajectory) -> String {
    format!("{:?}", texts_of(row).0)
}

/// Prompt or answer of a row; its debug form is compared.
enum RowText<'a> {
    Tokens(&'a [u32]),
    Messages(&'a [Message]),
}

impl Debug for RowText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => tokens.fmt(f),
            Self::Messages(messages) => messages.fmt(f),
        }
    }
}

/// Returns the prompt and the answer of a row: as tokens if the row has tokens, else as messages.
fn texts_of(row: &Trajectory) -> (RowText<'_>, RowText<'_>) {
    if row.token_ids.is_empty() {
        let first = row.messages.iter().position(|m| m.role == "assistant").unwrap_or(row.messages.len());
        let (prompt, answer) = row.messages.split_at(first);
        return (RowText::Messages(prompt), RowText::Messages(answer));
    }
    let (prompt, answer) = row.token_ids.split_at((row.prompt_tokens as usize).min(row.token_ids.len()));
    (RowText::Tokens(prompt), RowText::Tokens(answer))
}

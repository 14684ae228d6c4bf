//! Reads the facts by which rollouts are selected and sorted, without their texts and tokens.

use crate::chosen_rows::ChosenRows;
use crate::file::{BatchReader, ReadSlice};
use crate::rows::conform_rows;
use crate::source::TableSource;
use crate::trajectory::Trajectory;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use std::collections::HashMap;
use std::ops::Range;
use trainyard_core::{Error, Result};

/// Columns of the facts.
const COLUMNS: [&str; 10] = [
    "problem_id",
    "group",
    "reward",
    "stop_reason",
    "turns",
    "tool_errors",
    "level",
    "update",
    "correct",
    "unreadable",
];
/// Column that has a value for each token, in few bytes.
const TOKENS: &str = "loss_mask";
/// Rows of a batch of chosen rows.
const ROWS: usize = 1024;

/// Verdict on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AnswerVerdict {
    /// The answer is correct.
    Right,
    /// The answer is not correct.
    Wrong,
    /// There is no readable answer.
    Unreadable,
    /// No verifier judged the row.
    #[default]
    Unjudged,
}

impl AnswerVerdict {
    /// All verdicts.
    pub const ALL: [Self; 4] = [Self::Right, Self::Wrong, Self::Unreadable, Self::Unjudged];

    /// Returns the name of the verdict.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Unreadable => "unreadable",
            Self::Unjudged => "unjudged",
        }
    }
    /// Returns the verdict with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
    }
    /// Returns the verdict of a comparison: whether the answer is correct, and whether it could not be read.
    pub fn of(correct: Option<bool>, is_unreadable: bool) -> Self {
        match correct {
            None => Self::Unjudged,
            Some(true) => Self::Right,
            Some(false) if is_unreadable => Self::Unreadable,
            Some(false) => Self::Wrong,
        }
    }
}

/// Facts of one rollout.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RolloutFacts {
    /// Number of the row, from 0.
    pub row: u64,
    /// Verdict on the answer.
    pub verdict: AnswerVerdict,
    /// Weighted sum of the reward's components.
    pub reward: f64,
    /// Difficulty of the problem; 0 if unknown.
    pub level: u32,
    /// Number of agent turns.
    pub turns: u32,
    /// Number of tool calls that failed.
    pub tool_errors: u32,
    /// Number of the update that used the row.
    pub update: Option<u32>,
    /// Number of the group.
    pub group: u32,
    /// Index of the problem's id in [`FactTable::problems`].
    pub problem: u32,
    /// Index of the reason for the end in [`FactTable::stops`].
    pub stop: u32,
    /// Number of tokens; 0 if they were not requested.
    pub tokens: u32,
}

/// Facts of some rollouts of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FactTable {
    /// Facts, in the order of the table.
    pub rows: Vec<RolloutFacts>,
    /// Ids of problems, in the order of their first rows.
    pub problems: Vec<String>,
    /// Reasons for the end, in the order of their first rows.
    pub stops: Vec<String>,
}

/// Reads the facts of adjacent rows; `with_tokens` also counts the tokens, which takes longer.
///
/// Errors: invalid (no such file), data (corrupt, truncated, not trajectories), naming the file.
pub fn read_facts(source: impl Into<TableSource>, rows: Range<u64>, with_tokens: bool) -> Result<FactTable> {
    let source = source.into();
    let columns: Vec<String> = columns(with_tokens).into_iter().map(str::to_string).collect();
    let limit = Some(rows.end.saturating_sub(rows.start) as usize);
    let part = ReadSlice { offset: rows.start as usize, limit, columns: Some(&columns) };
    let mut facts = FactReader::default();
    let mut first = rows.start;
    for batch in BatchReader::open_part(&source, &part)? {
        let batch = batch?;
        let count = batch.num_rows() as u64;
        facts.add(&source, &batch, first..first + count)?;
        first += count;
    }
    Ok(facts.finish())
}

/// Reads the facts of rows given in ascending order and each once. Errors: those of [`read_facts`].
pub fn read_facts_of(source: impl Into<TableSource>, rows: &[u64], with_tokens: bool) -> Result<FactTable> {
    let source = source.into();
    let mut facts = FactReader::default();
    let mut left = rows.iter().copied();
    for batch in ChosenRows::open(&source, &columns(with_tokens), rows, ROWS)? {
        let batch = batch?;
        facts.add(&source, &batch, left.by_ref().take(batch.num_rows()))?;
    }
    Ok(facts.finish())
}

fn columns(with_tokens: bool) -> Vec<&'static str> {
    COLUMNS.into_iter().chain(with_tokens.then_some(TOKENS)).collect()
}

/// Texts, each with a number.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_string(), number);
        self.names.push(name.to_string());
        number
    }
}

#[derive(Default)]
struct FactReader {
    rows: Vec<RolloutFacts>,
    problems: Names,
    stops: Names,
}

impl FactReader {
    /// Adds the rows of a batch, which have these numbers.
    fn add(&mut self, source: &TableSource, batch: &RecordBatch, numbers: impl Iterator<Item = u64>) -> Result<()> {
        let has_tokens = batch.column_by_name(TOKENS).is_some();
        let wanted: Vec<String> = columns(has_tokens).into_iter().map(str::to_string).collect();
        let batch = conform_rows::<Trajectory>(source.path(), batch, Some(&wanted))?;
        let column = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| Error::bug(format!("trajectories have no column `{name}`")))
        };
        let (problems, stops) = (column("problem_id")?.as_string::<i32>(), column("stop_reason")?.as_string::<i32>());
        let (rewards, updates) = (numbers_of::<Float64Type>(column("reward")?), column("update")?);
        let (correct, unreadable) = (column("correct")?.as_boolean(), column("unreadable")?);
        let number = |name: &str| column(name).map(numbers_of::<UInt32Type>);
        let (groups, turns, errors) = (number("group")?, number("turns")?, number("tool_errors")?);
        let (levels, updates) = (number("level")?, numbers_of::<UInt32Type>(updates));
        let tokens = batch.column_by_name(TOKENS).map(|column| column.as_list::<i32>());
        for (at, row) in numbers.take(batch.num_rows()).enumerate() {
            let is_correct = correct.is_valid(at).then(|| correct.value(at));
            self.rows.push(RolloutFacts {
                row,
                verdict: AnswerVerdict::of(is_correct, unreadable.is_valid(at)),
                reward: rewards.value(at),
                level: levels.value(at),
                turns: turns.value(at),
                tool_errors: errors.value(at),
                update: updates.is_valid(at).then(|| updates.value(at)),
                group: groups.value(at),
                problem: self.problems.number(problems.value(at)),
                stop: self.stops.number(stops.value(at)),
                tokens: tokens.map_or(0, |tokens| tokens.value_length(at).unsigned_abs()),
            });
        }
        Ok(())
    }
    fn finish(self) -> FactTable {
        FactTable { rows: self.rows, problems: self.problems.names, stops: self.stops.names }
    }
}

fn numbers_of<T: ArrowPrimitiveType>(column: &ArrayRef) -> &PrimitiveArray<T> {
    column.as_primitive::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerCheck, StopReason, write_trajectories};

    fn row(id: u32, correct: Option<bool>, unreadable: Option<&str>) -> Trajectory {
        let check = |correct| AnswerCheck {
            correct,
            extracted: unreadable.is_none().then(|| "5".to_string()),
            unreadable: unreadable.map(str::to_string),
            ..AnswerCheck::default()
        };
        Trajectory {
            id: format!("t{id}"),
            problem_id: format!("p{}", id / 2),
            group: id / 2,
            reward: f64::from(id) / 2.0,
            level: 3,
            turns: id,
            tool_errors: 1,
            update: (id > 0).then_some(id),
            stop_reason: if id == 1 { StopReason::Length } else { StopReason::Answer },
            loss_mask: vec![true; id as usize],
            token_ids: vec![1; id as usize],
            turn: vec![0; id as usize],
            answer_check: correct.map(check),
            ..Trajectory::default()
        }
    }

    #[test]
    fn facts_are_those_of_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let rows = [
            row(0, Some(true), None),
            row(1, Some(false), Some("no box")),
            row(2, Some(false), None),
            row(3, None, None),
        ];
        write_trajectories(&path, &rows).unwrap();
        let all = read_facts(&path, 0..99, true).unwrap();
        let verdicts: Vec<AnswerVerdict> = all.rows.iter().map(|row| row.verdict).collect();
        assert_eq!(
            verdicts,
            [AnswerVerdict::Right, AnswerVerdict::Unreadable, AnswerVerdict::Wrong, AnswerVerdict::Unjudged]
        );
        assert_eq!(
            (all.problems.as_slice(), all.stops.as_slice()),
            (["p0", "p1"].map(str::to_string).as_slice(), ["answer", "length"].map(str::to_string).as_slice(),)
        );
        let third = all.rows[2];
        let expected = RolloutFacts {
            row: 2,
            verdict: AnswerVerdict::Wrong,
            reward: 1.0,
            level: 3,
            turns: 2,
            tool_errors: 1,
            update: Some(2),
            group: 1,
            problem: 1,
            stop: 0,
            tokens: 2,
        };
        assert_eq!(third, expected);
        assert_eq!((all.rows[0].update, all.rows[1].stop), (None, 1));
        let chosen = read_facts_of(&path, &[1, 3], false).unwrap();
        assert_eq!(
            chosen.rows.iter().map(|row| (row.row, row.turns, row.tokens)).collect::<Vec<_>>(),
            [(1, 1, 0), (3, 3, 0)]
        );
        assert_eq!(read_facts(&path, 3..9, false).unwrap().rows.iter().map(|row| row.row).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn files_without_checks_are_unjudged_and_other_files_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        write_trajectories(&path, &[row(4, None, None)]).unwrap();
        assert_eq!(read_facts(&path, 0..1, false).unwrap().rows[0].verdict, AnswerVerdict::Unjudged);
        crate::TableBuilder::new().i64("n", 0..3).write(&path).unwrap();
        let error = read_facts(&path, 0..1, false).unwrap_err();
        assert!(error.message.contains("data.parquet"), "{error}");
    }

    #[test]
    fn verdicts_have_names() {
        for verdict in AnswerVerdict::ALL {
            assert_eq!(AnswerVerdict::named(verdict.name()), Some(verdict));
        }
        assert_eq!(AnswerVerdict::named("good"), None);
    }
}

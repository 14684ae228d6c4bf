//! Applies the options of `data/select` one after another, and copies the selected rows.
//!
//! The memory is one byte a row ([`RowSelection`]), that of one batch, and the evaluation problems.

use super::SelectConfig;
use crate::identity::half_of;
use crate::row_files::RowFiles;
use crate::row_selection::RowSelection;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt32Type;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{MessageColumns, Problem, TableRowWriter, decode_part};

/// The result of a selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectedProblems {
    /// Number of selected problems.
    pub problems: usize,
    /// Number of selected problems of each level.
    pub levels: BTreeMap<u32, usize>,
    /// Number of problems that `decontaminate` removed from those that the options before it left.
    pub overlapping: usize,
}

/// Applies the options and writes the selected rows to `output`, in the order of the files. `scratch` is a folder for a
/// temporary file. Errors: data, naming the option that left no row; those of reading and writing.
pub fn select(
    files: &RowFiles<'_, Problem>,
    evaluation: &[Problem],
    config: &SelectConfig,
    scratch: &Path,
    output: &Path,
) -> Result<SelectedProblems> {
    let mut rows = RowSelection::all(files)?;
    let check = |rows: &RowSelection<'_, Problem>, option: &str| match rows.count() {
        0 => Err(Error::data(format!("no problems are left after `{option}`"))
            .help(format!("the input has {}", summary(files)?))),
        count => Ok(count),
    };
    check(&rows, "problems")?;
    if let Some(splits) = &config.splits {
        rows.retain(&["split"], |_, batch| {
            Ok(texts(batch, "split")?.map(|split| splits.iter().any(|it| it == split)).collect())
        })?;
        check(&rows, "splits")?;
    }
    if let Some(wanted) = &config.levels {
        rows.retain(&["level"], |_, batch| Ok(levels(batch)?.iter().map(|level| wanted.contains(level)).collect()))?;
        check(&rows, "levels")?;
    }
    if let Some(half) = config.half {
        rows.retain(&["messages"], |_, batch| {
            let messages = MessageColumns::of(batch)?;
            Ok((0..batch.num_rows()).map(|row| half_of(messages.last_question(row)) == half).collect())
        })?;
        check(&rows, "half")?;
    }
    if let Some(expression) = &config.r#where {
        rows.retain_where(expression, scratch)?;
        check(&rows, "where")?;
    }
    let mut overlapping = 0;
    if let Some(decontaminate) = &config.decontaminate {
        let before = rows.count();
        let index = decontaminate.problem_index(evaluation)?;
        rows.retain(&["messages", "canonical", "reference"], |path, batch| {
            let mut overlaps = index.overlapping(&decode_part(path, batch)?);
            overlaps.iter_mut().for_each(|overlaps| *overlaps = !*overlaps);
            Ok(overlaps)
        })?;
        overlapping = before - check(&rows, "decontaminate")?;
    }
    let levels = retain_first(&mut rows, config)?;
    let problems = copy(&rows, output)?;
    Ok(SelectedProblems { problems, levels, overlapping })
}

/// Selects the first rows of each level, and the first of those. Returns the number of selected rows by level.
fn retain_first(rows: &mut RowSelection<'_, Problem>, config: &SelectConfig) -> Result<BTreeMap<u32, usize>> {
    let mut selected: BTreeMap<u32, usize> = BTreeMap::new();
    let (per_level, limit) = (count(config.per_level), count(config.limit));
    let mut total = 0;
    rows.retain(&["level"], |_, batch| {
        let mut keep = |level: &u32| {
            let of_level = selected.get(level).copied().unwrap_or(0);
            let keep = of_level < per_level && total < limit;
            if keep {
                selected.insert(*level, of_level + 1);
                total += 1;
            }
            keep
        };
        Ok(levels(batch)?.iter().map(&mut keep).collect())
    })?;
    Ok(selected)
}

fn count(limit: Option<u64>) -> usize {
    limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Writes the selected rows with all their columns. Returns their number.
fn copy(rows: &RowSelection<'_, Problem>, output: &Path) -> Result<usize> {
    let mut writer = TableRowWriter::<Problem>::create(output)?;
    rows.batches(None).try_for_each(|batch| writer.write_batch(&batch?.1))?;
    writer.finish().map(|rows| rows as usize)
}

fn texts<'b>(batch: &'b RecordBatch, name: &str) -> Result<impl Iterator<Item = &'b str>> {
    let column = batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let column = column.ok_or_else(|| Error::bug(format!("a batch has no column `{name}`")))?;
    Ok(column.iter().map(Option::unwrap_or_default))
}

fn levels(batch: &RecordBatch) -> Result<&[u32]> {
    let column = batch.column_by_name("level").and_then(|column| column.as_primitive_opt::<UInt32Type>());
    column.map(|column| &column.values()[..]).ok_or_else(|| Error::bug("a batch has no column `level`"))
}

/// Describes the input in errors.
fn summary(files: &RowFiles<'_, Problem>) -> Result<String> {
    let (mut splits, mut found, mut rows) = (BTreeSet::new(), BTreeSet::new(), 0);
    files.each_batch(Some(&["split".to_string(), "level".to_string()]), |_, batch| {
        texts(batch, "split")?.for_each(|split| {
            if !splits.contains(split) {
                splits.insert(split.to_string());
            }
        });
        found.extend(levels(batch)?.iter().map(ToString::to_string));
        rows += batch.num_rows();
        Ok(())
    })?;
    let join = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    Ok(format!("{rows} problems, splits {}; levels {}", join(splits), join(found)))
}

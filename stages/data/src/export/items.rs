//! The rows of an artifact, one after another, in the requested form.

use super::format::{ExportFormat, ExportItem};
use super::omissions::ExportOmissions;
use super::{ExportForm, steps, tokens};
use std::path::Path;
use trainyard_core::{ArtifactKind, Error, Result};
use trainyard_tables::{EpisodeStatus, OrderedValue, Problem, TableRowReader, TokenPack, Trajectory, read_schema};

/// A table to export.
#[derive(Debug, Clone, Copy)]
pub struct ExportSource<'a> {
    /// Parquet file.
    pub table: &'a Path,
    /// Kind of the artifact.
    pub kind: ArtifactKind,
}

impl ExportSource<'_> {
    /// Returns the forms that the table may have, the usual one first. Errors: those of reading.
    pub fn forms(&self) -> Result<&'static [ExportForm]> {
        let packs = self.kind == ArtifactKind::Table && read_schema(self.table)?.metadata().contains_key("pack_format");
        let pairs = self.kind == ArtifactKind::Trajectories && self.holds_pairs()?;
        Ok(ExportForm::of(self.kind, pairs, packs))
    }
    /// Returns whether the first two rows are a pair, as `data/pairs` and `data/import` write them.
    fn holds_pairs(&self) -> Result<bool> {
        let first = TableRowReader::<Trajectory>::open(self.table)?.next().transpose()?.unwrap_or_default();
        Ok(matches!(&first[..], [chosen, rejected, ..] if is_pair(chosen, rejected)))
    }
}

fn is_pair(chosen: &Trajectory, rejected: &Trajectory) -> bool {
    let preferred = |row: &Trajectory| row.rewards.contains_key(crate::pairs::REWARD);
    chosen.group == rejected.group
        && (chosen.sample, rejected.sample) == (0, 1)
        && preferred(chosen)
        && preferred(rejected)
}

/// Passes every row of the export to `write`, in order; returns their number. Errors: data (rows that are broken, or no
/// row of this form), those of reading and writing.
pub fn export(
    source: ExportSource<'_>,
    form: ExportForm,
    format: &dyn ExportFormat,
    left: &mut ExportOmissions,
    write: &mut dyn FnMut(OrderedValue) -> Result<()>,
) -> Result<u64> {
    let mut rows = 0;
    let mut take = |item: ExportItem<'_>, left: &mut ExportOmissions| {
        rows += 1;
        write(format.row(&item, left)?)
    };
    match form {
        ExportForm::Prompts => problems(source.table, left, &mut take)?,
        ExportForm::Tokens if source.kind == ArtifactKind::Table => packs(source.table, left, &mut take)?,
        ExportForm::Preference => pairs(source.table, left, &mut take)?,
        _ => trajectories(source.table, form, left, &mut take)?,
    }
    if rows == 0 {
        return Err(nothing(form));
    }
    Ok(rows)
}

type ItemSink<'t> = dyn FnMut(ExportItem<'_>, &mut ExportOmissions) -> Result<()> + 't;

fn problems(table: &Path, left: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    let mut index = 0;
    for batch in TableRowReader::<Problem>::open(table)? {
        for problem in &batch? {
            take(ExportItem::Problem(problem, index), left)?;
            index += 1;
        }
    }
    Ok(())
}

fn packs(table: &Path, left: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    for batch in TableRowReader::<TokenPack>::open(table)? {
        for pack in &batch? {
            tokens::of_pack(pack)?.into_iter().try_for_each(|sequence| take(ExportItem::Tokens(sequence), left))?;
        }
    }
    Ok(())
}

fn pairs(table: &Path, left: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    let mut waiting: Option<Trajectory> = None;
    for batch in TableRowReader::<Trajectory>::open(table)? {
        for row in batch? {
            match waiting.take() {
                Some(chosen) if is_pair(&chosen, &row) && chosen.messages != row.messages => {
                    take(ExportItem::Pair(&chosen, &row), left)?;
                }
                Some(chosen) if is_pair(&chosen, &row) => left.add("pairs whose sides are the same", 1),
                Some(_) => {
                    left.add("rows that are no half of a pair", 1);
                    waiting = Some(row);
                }
                None => waiting = Some(row),
            }
        }
    }
    left.add("rows that are no half of a pair", usize::from(waiting.is_some()));
    Ok(())
}

fn trajectories(table: &Path, form: ExportForm, left: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    for batch in TableRowReader::<Trajectory>::open(table)? {
        for row in &batch? {
            if row.status != EpisodeStatus::Ok {
                left.add("rows that failed for reasons of the infrastructure", 1);
                continue;
            }
            match form {
                ExportForm::Tokens if row.token_ids.is_empty() => left.add("rows without tokens", 1),
                ExportForm::Tokens => {
                    let sequences = tokens::of_trajectory(row, left)?;
                    sequences.into_iter().try_for_each(|sequence| take(ExportItem::Tokens(sequence), left))?;
                }
                ExportForm::Steps => match steps::labeled_steps(row, left) {
                    Some(steps) => take(ExportItem::Steps(steps), left)?,
                    None => left.add("rows without labeled turns", 1),
                },
                _ if row.messages.iter().all(|m| m.role != "assistant") => left.add("rows in which no agent speaks", 1),
                _ => take(ExportItem::Conversation(row), left)?,
            }
        }
    }
    Ok(())
}

fn nothing(form: ExportForm) -> Error {
    let (what, help) = match form {
        ExportForm::Tokens => {
            ("tokens", "export the output of `data/tokenize` of these rows, or rollouts, which have tokens")
        }
        ExportForm::Steps => {
            ("labels of turns", "export the trajectories of `data/step_labels`, whose steps are turns")
        }
        ExportForm::Preference => ("pairs", "export the output `preferences` of `data/pairs` or `data/import`"),
        ExportForm::Sft | ExportForm::Prompts => {
            ("rows to write", "look at the artifact with `trainyard artifacts show`")
        }
    };
    Error::data(format!("no row has {what}")).help(help)
}

//! Reads the rows of an artifact one after another, and converts them to the requested form.

use super::format::{ExportFormat, ExportItem};
use super::omissions::ExportOmissions;
use super::{ExportForm, steps, tokens};
use serde_json::Value;
use std::collections::BTreeMap;
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
        let mut first: Vec<Trajectory> = Vec::new();
        for batch in TableRowReader::open(self.table)? {
            first.extend(batch?);
            if first.len() > 1 {
                break;
            }
        }
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

/// Converts every row of the source and passes it to `write`, in order. Returns the number of rows. Errors: data (a
/// broken row, or no row of this form), those of reading and writing.
pub fn export(
    source: ExportSource<'_>,
    form: ExportForm,
    format: &dyn ExportFormat,
    omissions: &mut ExportOmissions,
    write: &mut dyn FnMut(OrderedValue) -> Result<()>,
) -> Result<u64> {
    let mut rows = 0;
    let mut take = |item: ExportItem<'_>, meta: Option<&str>, omissions: &mut ExportOmissions| {
        rows += 1;
        let row = format.row(&item, omissions)?;
        write(if format.keeps_columns() { with_columns(row, meta)? } else { row })?;
        omissions
            .add("rows with further columns of their source", usize::from(meta.is_some() && !format.keeps_columns()));
        Ok(())
    };
    match form {
        ExportForm::Prompts => problems(source.table, omissions, &mut take)?,
        ExportForm::Tokens if source.kind == ArtifactKind::Table => packs(source.table, omissions, &mut take)?,
        ExportForm::Preference => pairs(source.table, omissions, &mut take)?,
        _ => trajectories(source.table, form, omissions, &mut take)?,
    }
    if rows == 0 {
        return Err(no_rows(form));
    }
    Ok(rows)
}

type ItemSink<'t> = dyn FnMut(ExportItem<'_>, Option<&str>, &mut ExportOmissions) -> Result<()> + 't;

fn problems(table: &Path, omissions: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    let mut index = 0;
    for batch in TableRowReader::<Problem>::open(table)? {
        for problem in &batch? {
            take(ExportItem::Problem(problem, index), problem.meta.as_deref(), omissions)?;
            index += 1;
        }
    }
    Ok(())
}

fn packs(table: &Path, omissions: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    for batch in TableRowReader::<TokenPack>::open(table)? {
        for pack in &batch? {
            tokens::of_pack(pack)?
                .into_iter()
                .try_for_each(|sequence| take(ExportItem::Tokens(sequence), None, omissions))?;
        }
    }
    Ok(())
}

fn pairs(table: &Path, omissions: &mut ExportOmissions, take: &mut ItemSink<'_>) -> Result<()> {
    let mut pending: Option<Trajectory> = None;
    for batch in TableRowReader::<Trajectory>::open(table)? {
        for row in batch? {
            match pending.take() {
                Some(chosen) if is_pair(&chosen, &row) && chosen.messages != row.messages => {
                    take(ExportItem::Pair(&chosen, &row), chosen.meta.as_deref(), omissions)?;
                }
                Some(chosen) if is_pair(&chosen, &row) => omissions.add("pairs whose sides are the same", 1),
                Some(_) => {
                    omissions.add("rows without the other row of their pair", 1);
                    pending = Some(row);
                }
                None => pending = Some(row),
            }
        }
    }
    omissions.add("rows without the other row of their pair", usize::from(pending.is_some()));
    Ok(())
}

fn trajectories(
    table: &Path,
    form: ExportForm,
    omissions: &mut ExportOmissions,
    take: &mut ItemSink<'_>,
) -> Result<()> {
    for batch in TableRowReader::<Trajectory>::open(table)? {
        for row in &batch? {
            if row.status != EpisodeStatus::Ok {
                omissions.add("rows with infrastructure failures", 1);
                continue;
            }
            let meta = row.meta.as_deref();
            match form {
                ExportForm::Tokens if row.token_ids.is_empty() => omissions.add("rows without tokens", 1),
                ExportForm::Tokens => {
                    let sequences = tokens::of_trajectory(row, omissions)?;
                    sequences
                        .into_iter()
                        .try_for_each(|sequence| take(ExportItem::Tokens(sequence), meta, omissions))?;
                }
                ExportForm::Steps => match steps::labeled_steps(row, omissions) {
                    Some(steps) => take(ExportItem::Steps(steps), meta, omissions)?,
                    None => omissions.add("rows without labeled turns", 1),
                },
                _ if row.messages.iter().all(|m| m.role != "assistant") => {
                    omissions.add("rows without an agent message", 1)
                }
                _ => take(ExportItem::Conversation(row), meta, omissions)?,
            }
        }
    }
    Ok(())
}

/// Adds the further columns of the source to a row, under their names. A column whose name the row has with another
/// value is called `meta_<name>`. Errors: data, if `meta` is not an object.
fn with_columns(row: OrderedValue, meta: Option<&str>) -> Result<OrderedValue> {
    let Some(meta) = meta else { return Ok(row) };
    let columns: BTreeMap<String, Value> = serde_json::from_str(meta)
        .map_err(|e| Error::data(format!("the column `meta` of a row is not a JSON object: {e}")))?;
    Ok(columns.iter().fold(row, |row, (name, value)| {
        let value = OrderedValue::of_json(value);
        match row.get(name) {
            Some(own) if *own == value => row,
            Some(_) => row.with(&format!("meta_{name}"), Some(value)),
            None => row.with(name, Some(value)),
        }
    }))
}

fn no_rows(form: ExportForm) -> Error {
    let (missing, help) = match form {
        ExportForm::Tokens => {
            ("tokens", "export the output of `data/tokenize` of these rows, or rollouts, which have tokens")
        }
        ExportForm::Steps => {
            ("labels of turns", "export the trajectories of `data/step_labels`, whose steps are turns")
        }
        ExportForm::Preference => ("pairs", "export the output `preferences` of `data/pairs` or `data/import`"),
        ExportForm::Sft | ExportForm::Prompts => {
            ("rows to write", "inspect the artifact with `trainyard artifacts show`")
        }
    };
    Error::data(format!("no row has {missing}")).help(help)
}

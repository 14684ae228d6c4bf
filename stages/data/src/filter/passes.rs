//! Runs the rules of a stage over its rows, batch by batch.
//!
//! Rules judge together in one pass over the files. A rule that observes all rows first ([`FilterRule::observes`])
//! begins another pass, because it must see only the rows that the rules before it keep. The last pass also writes.
//! Rows with edits are replaced in each batch as it is read, so that every rule and the outputs have them.

use super::edits::EDITED_COLUMNS;
use super::rows::RuleRows;
use super::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use super::verdicts::RowVerdicts;
use crate::row_files::{RowFiles, UnreadableRows};
use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{TableRowWriter, Trajectory};

/// Column of the token ids.
const TOKENS: &str = "token_ids";

/// Rules at work on the rows of some files.
pub struct FilterPasses<'a> {
    rules: Vec<StartedRule<'a>>,
    files: RowFiles<'a, Trajectory>,
    verdicts: RowVerdicts,
}

struct StartedRule<'a> {
    kind: &'static str,
    columns: RuleColumns,
    observes: bool,
    pass: Box<dyn RulePass + 'a>,
}

impl<'a> FilterPasses<'a> {
    /// Starts the rules. Errors: those of [`FilterRule::start`], invalid (no rows), data (a file without the columns of
    /// trajectories).
    pub fn start(
        rules: &'a [Box<dyn FilterRule>],
        files: RowFiles<'a, Trajectory>,
        context: &'a RuleContext<'a>,
    ) -> Result<Self> {
        let mut verdicts = RowVerdicts::new(rules, &context.new_file("edits"))?;
        files.each_batch(Some(&["verdicts".to_string()]), |_, batch| verdicts.add_rows(batch))?;
        if verdicts.rows() == 0 {
            return Err(no_rows(files.unreadable()));
        }
        let start = |rule: &'a dyn FilterRule| {
            let pass = rule.start(context).map_err(|e| at_rule(e, rule.kind()))?;
            let (kind, columns, observes) = (rule.kind(), columns(rule), rule.observes());
            Ok(StartedRule { kind, columns, observes, pass })
        };
        Ok(Self { rules: rules.iter().map(|rule| start(rule.as_ref())).collect::<Result<_>>()?, files, verdicts })
    }
    /// Returns the verdicts so far.
    pub fn verdicts(&self) -> &RowVerdicts {
        &self.verdicts
    }
    /// Judges all rows, and writes the kept and the rejected ones. `at_batch` receives the number of rows that the last
    /// pass has read; its errors end the run.
    pub fn run(&mut self, [kept, rejected]: [&Path; 2], mut at_batch: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let segments = self.segments();
        let (last, earlier) = segments.split_last().ok_or_else(|| Error::bug("a filter has no pass"))?;
        for segment in earlier {
            self.observe(segment)?;
            let columns = self.columns(segment);
            self.judge(segment, columns.as_deref(), |_, _, _| at_batch(0))?;
        }
        self.observe(last)?;
        let mut outputs = [TableRowWriter::create(kept)?, TableRowWriter::create(rejected)?];
        self.judge(last, None, |verdicts, batch, first| {
            write(verdicts, batch, first, &mut outputs)?;
            at_batch(first + batch.num_rows())
        })?;
        for output in outputs {
            TableRowWriter::<Trajectory>::finish(output)?;
        }
        for (i, rule) in self.rules.iter_mut().enumerate() {
            rule.pass.finish().map_err(|e| at_rule(e, rule.kind))?;
            self.verdicts.set_measured(i, rule.pass.measured());
        }
        Ok(())
    }

    /// Returns the rules of each pass; at least one pass, whose rules may be none.
    fn segments(&self) -> Vec<Range<usize>> {
        let observing = (1..self.rules.len()).filter(|i| self.rules[*i].observes);
        let starts: Vec<usize> = std::iter::once(0).chain(observing).collect();
        let ends = starts.iter().skip(1).copied().chain([self.rules.len()]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }
    /// Returns the columns that some rules read.
    fn columns(&self, rules: &Range<usize>) -> Option<Vec<String>> {
        let mut all = BTreeSet::from(["id".to_string()]);
        for rule in &self.rules[rules.clone()] {
            let RuleColumns::Named(names) = &rule.columns else { return None };
            all.extend(names.iter().cloned());
        }
        Some(all.into_iter().collect())
    }
    /// Shows all kept rows to the first rule of a pass, if it observes.
    fn observe(&mut self, segment: &Range<usize>) -> Result<()> {
        let columns = self.columns(&(segment.start..(segment.start + 1).min(segment.end)));
        let (rules, verdicts, files) = (&mut self.rules, &self.verdicts, &self.files);
        let Some(rule) = rules.get_mut(segment.start).filter(|rule| rule.observes && !segment.is_empty()) else {
            return Ok(());
        };
        let mut first = 0;
        files.each_batch(columns.as_deref(), |path, batch| {
            let kept = verdicts.mask(first..first + batch.num_rows());
            let batch = verdicts.edited(batch, first)?;
            first += batch.num_rows();
            let rows = rule.rows(path, &filtered(&batch, &kept)?)?;
            rule.pass.observe(&rows).map_err(|e| at_rule(e, rule.kind))
        })
    }
    /// Judges all rows by some rules, and passes each batch and the number of its first row on.
    fn judge(
        &mut self,
        segment: &Range<usize>,
        columns: Option<&[String]>,
        mut after: impl FnMut(&mut RowVerdicts, &RecordBatch, usize) -> Result<()>,
    ) -> Result<()> {
        let (rules, verdicts, files) = (&mut self.rules, &mut self.verdicts, &self.files);
        let mut first = 0;
        files.each_batch(columns, |path, batch| {
            let range = first..first + batch.num_rows();
            let batch = judge_batch(&mut rules[segment.clone()], segment.start, (path, batch), &range, verdicts)?;
            after(verdicts, &batch, first)?;
            first = range.end;
            Ok(())
        })
    }
}

/// Returns the columns that a rule reads, with those that its edits need.
fn columns(rule: &dyn FilterRule) -> RuleColumns {
    match rule.columns() {
        RuleColumns::Named(mut names) if rule.edits() => {
            let more = EDITED_COLUMNS.into_iter().chain([TOKENS]).filter(|name| !names.iter().any(|it| it == name));
            names.extend(more.map(str::to_string).collect::<Vec<_>>());
            RuleColumns::Named(names)
        }
        columns => columns,
    }
}

impl StartedRule<'_> {
    /// Returns the columns of this rule.
    fn rows(&self, path: &Path, batch: &RecordBatch) -> Result<RuleRows> {
        let rows = RuleRows::new(path, batch.clone());
        let RuleColumns::Named(names) = &self.columns else { return Ok(rows) };
        rows.part(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Judges the kept rows of a batch by one rule after the other. Returns the batch with all edits.
fn judge_batch(
    rules: &mut [StartedRule<'_>],
    number: usize,
    (path, batch): (&Path, &RecordBatch),
    range: &Range<usize>,
    verdicts: &mut RowVerdicts,
) -> Result<RecordBatch> {
    let mut batch = verdicts.edited(batch, range.start)?;
    let mut kept: Option<RecordBatch> = None;
    let mut shared: Option<(RuleColumns, RuleRows)> = None;
    for (i, rule) in rules.iter_mut().enumerate() {
        let mask = verdicts.mask(range.clone());
        if kept.as_ref().is_none_or(|kept| kept.num_rows() != mask.true_count()) {
            kept = Some(filtered(&batch, &mask)?);
            shared = None;
        }
        let Some(rows_left) = &kept else { continue };
        let rows = match shared.take() {
            Some((columns, rows)) if columns == rule.columns => rows,
            _ => rule.rows(path, rows_left)?,
        };
        let judgments = rule.pass.judge(&rows).map_err(|e| at_rule(e, rule.kind))?;
        let edits = check_edits(rows_left, &judgments).map_err(|e| at_rule(e, rule.kind))?;
        verdicts.record(number + i, range.clone(), judgments, rows.ids()?)?;
        shared = Some((rule.columns.clone(), rows));
        if edits {
            batch = verdicts.edited(&batch, range.start)?;
            (kept, shared) = (None, None);
        }
    }
    Ok(batch)
}

/// Returns whether some rows are edited. Errors: bug (an edited row has token ids, which its messages would no longer
/// fit).
fn check_edits(kept: &RecordBatch, judgments: &[RuleVerdict]) -> Result<bool> {
    let mut edited = (0..kept.num_rows()).zip(judgments).filter(|(_, it)| matches!(it, RuleVerdict::Edit { .. }));
    let Some(first) = edited.next() else { return Ok(false) };
    let lists = kept.column_by_name(TOKENS).and_then(|column| column.as_list_opt::<i32>());
    let lists = lists.ok_or_else(|| Error::bug(format!("edited rows have no column `{TOKENS}`")))?;
    match std::iter::once(first).chain(edited).find(|(i, _)| lists.value_length(*i) > 0) {
        Some((i, _)) => Err(Error::bug(format!("row {} of a batch has token ids and is edited", i + 1))),
        None => Ok(true),
    }
}

/// Writes the kept and the rejected rows of a batch, with their verdicts.
fn write(
    verdicts: &mut RowVerdicts,
    batch: &RecordBatch,
    first: usize,
    [kept, rejected]: &mut [TableRowWriter<Trajectory>; 2],
) -> Result<()> {
    let mask = verdicts.mask(first..first + batch.num_rows());
    let batch = verdicts.complete(batch, first)?;
    kept.write_batch(&filtered(&batch, &mask)?)?;
    let others = mask.values().iter().map(|keep| Some(!keep)).collect();
    rejected.write_batch(&filtered(&batch, &others)?)
}

fn filtered(batch: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch> {
    if mask.true_count() == batch.num_rows() {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, mask).map_err(|e| Error::bug(format!("rows cannot be selected: {e}")))
}

fn no_rows(unreadable: &UnreadableRows) -> Error {
    match unreadable.first.first() {
        Some(first) => Error::data(format!("none of {} rows can be read: {first}", unreadable.count))
            .help("repair the rows, or run the stage that made them again"),
        None => Error::invalid("no row to filter").help("wire `trajectories` to an output that has rows"),
    }
}

fn at_rule(error: Error, kind: &str) -> Error {
    error.at(format!("rule `{kind}`"))
}

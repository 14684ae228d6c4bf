//! Collects the verdicts of rules on all rows of a stage, and adds them to the column `verdicts`.

use super::edits::RowEdits;
use super::rule::{FilterRule, MeasuredValues, RuleVerdict};
use crate::text::shortened;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Rejected rows of each reason that are kept as examples.
const EXAMPLES: usize = 3;
/// Characters of a reason in an example.
const EXAMPLE_CHARACTERS: usize = 200;

/// Number of rows that one rule judged, edited and rejected.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// Kind of the rule.
    pub rule: &'static str,
    /// Rows that reached the rule.
    pub judged: usize,
    /// Rows with new messages; `None` for a rule that never edits.
    pub edited: Option<usize>,
    /// Rejected rows by reason code.
    pub reasons: BTreeMap<String, usize>,
    /// First rejected rows of each reason code.
    pub examples: BTreeMap<&'static str, Vec<RejectedExample>>,
    /// Numbers by which the rule judged, once all rows are judged.
    pub measured: Option<MeasuredValues>,
}

/// A rejected row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedExample {
    /// Id of the row.
    pub row: String,
    /// Reason for this row without its code, shortened; may be empty.
    pub detail: String,
}

impl Count {
    /// Starts the counts of a rule, which may edit rows.
    pub fn new(rule: &'static str, edits: bool) -> Self {
        let edited = edits.then_some(0);
        Self { rule, judged: 0, edited, reasons: BTreeMap::new(), examples: BTreeMap::new(), measured: None }
    }
    fn reject(&mut self, code: &'static str, detail: &str, row: &str) {
        *self.reasons.entry(code.to_string()).or_insert(0) += 1;
        let examples = self.examples.entry(code).or_default();
        if examples.len() < EXAMPLES {
            examples.push(RejectedExample { row: row.to_string(), detail: shortened(detail, EXAMPLE_CHARACTERS) });
        }
    }
    /// Returns the number of rejected rows.
    pub fn rejected(&self) -> usize {
        self.reasons.values().sum()
    }
}

/// Rule that rejected a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowState {
    Kept,
    /// Rejected in an earlier stage; no rule judges it.
    RejectedBefore,
    /// Rejected by the rule of this index.
    RejectedBy(u16),
}

/// Verdicts of the rules of a stage on all its rows.
pub struct RowVerdicts {
    states: Vec<RowState>,
    /// Reasons by row and index of the rule, where not empty.
    reasons: BTreeMap<(usize, u16), Box<str>>,
    /// Edits, if a rule may edit.
    edits: Option<RowEdits>,
    counts: Vec<Count>,
}

impl RowVerdicts {
    /// Starts with no rows, and these rules. Edits are kept in a temporary file `edits`.
    ///
    /// Errors: retryable (a full disk), invalid (no such folder).
    pub fn new(rules: &[Box<dyn FilterRule>], edits: &Path) -> Result<Self> {
        let counts = rules.iter().map(|rule| Count::new(rule.kind(), rule.edits())).collect();
        let edits = rules.iter().any(|rule| rule.edits()).then(|| RowEdits::create(edits)).transpose()?;
        Ok(Self { states: Vec::new(), reasons: BTreeMap::new(), edits, counts })
    }
    /// Adds the rows of a batch, which has the column `verdicts`.
    pub fn add_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        let lists = verdict_lists(batch)?;
        let keeps = keeps(lists)?;
        let state = |range: &[i32]| {
            let kept = (range[0] as usize..range[1] as usize).all(|i| keeps.value(i));
            if kept { RowState::Kept } else { RowState::RejectedBefore }
        };
        self.states.extend(lists.value_offsets().windows(2).map(state));
        Ok(())
    }
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.states.len()
    }
    /// Returns the number of rows that no rule has rejected.
    pub fn kept(&self) -> usize {
        self.states.iter().filter(|state| **state == RowState::Kept).count()
    }
    /// Returns the counts of each rule, in order.
    pub fn counts(&self) -> &[Count] {
        &self.counts
    }
    /// Sets the numbers by which a rule judged.
    pub fn set_measured(&mut self, rule: usize, measured: Option<MeasuredValues>) {
        self.counts[rule].measured = measured;
    }
    /// Returns whether each of these rows is kept so far.
    pub fn mask(&self, rows: Range<usize>) -> BooleanArray {
        self.states[rows].iter().map(|state| Some(*state == RowState::Kept)).collect()
    }
    /// Returns a batch, the first row of which is row `first`, with the edits so far.
    pub fn edited(&self, batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
        self.edits.as_ref().map_or_else(|| Ok(batch.clone()), |edits| edits.applied(batch, first))
    }
    /// Records the judgments of a rule on the kept rows among `rows`, which have these ids.
    ///
    /// Errors: bug (another number of judgments than of kept rows, an edit by a rule that does not edit), retryable (a
    /// full disk).
    pub fn record(
        &mut self,
        rule: usize,
        rows: Range<usize>,
        judgments: Vec<RuleVerdict>,
        ids: &StringArray,
    ) -> Result<()> {
        let kept: Vec<usize> = rows.filter(|row| self.states[*row] == RowState::Kept).collect();
        let count = &mut self.counts[rule];
        if kept.len() != judgments.len() {
            let numbers = format!("judged {} of {} rows", judgments.len(), kept.len());
            return Err(Error::bug(format!("rule `{}` {numbers}", count.rule)));
        }
        count.judged += kept.len();
        for (i, (row, judgment)) in kept.into_iter().zip(judgments).enumerate() {
            let reason = match judgment {
                RuleVerdict::Keep => continue,
                RuleVerdict::KeepWithReason(reason) => reason,
                RuleVerdict::Edit { reason, edit } => {
                    let (Some(edited), Some(edits)) = (&mut count.edited, &mut self.edits) else {
                        return Err(Error::bug(format!("rule `{}` edits rows, but does not say so", count.rule)));
                    };
                    *edited += 1;
                    edits.insert(row, &edit)?;
                    reason
                }
                RuleVerdict::Reject { code, detail } => {
                    count.reject(code, &detail, ids.value(i));
                    self.states[row] = RowState::RejectedBy(rule as u16);
                    if detail.is_empty() { code.to_string() } else { format!("{code}: {detail}") }
                }
            };
            self.reasons.insert((row, rule as u16), reason.into());
        }
        Ok(())
    }
    /// Adds the verdicts on the rows of a batch, the first of which is row `first`, to its column `verdicts`. Their
    /// reasons and edits are released.
    pub fn complete(&mut self, batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
        let place = batch.schema_ref().index_of("verdicts").map_err(|e| Error::bug(e.to_string()))?;
        let mut columns = batch.columns().to_vec();
        columns[place] = self.appended(verdict_lists(batch)?, first)?;
        let end = first + batch.num_rows();
        self.reasons = self.reasons.split_off(&(end, 0));
        self.edits.iter_mut().for_each(|edits| edits.release_before(end));
        RecordBatch::try_new(batch.schema(), columns).map_err(|e| Error::bug(format!("verdicts do not fit: {e}")))
    }

    /// Returns the lists of verdicts with those of this stage at the end.
    fn appended(&self, lists: &ListArray, first: usize) -> Result<ArrayRef> {
        let earlier = lists.values().as_struct();
        let (rules, keeps, reasons) = (text_part(earlier, "rule")?, keeps(lists)?, text_part(earlier, "reason")?);
        let mut all = VerdictColumns::default();
        let lengths = lists.value_offsets().windows(2).enumerate().map(|(i, range)| {
            let before = all.keeps.len();
            (range[0] as usize..range[1] as usize)
                .for_each(|j| all.push(rules.value(j), keeps.value(j), reasons.value(j)));
            self.push_own(first + i, &mut all);
            all.keeps.len() - before
        });
        let lengths: Vec<usize> = lengths.collect();
        all.finish(lists, &lengths)
    }
    /// Adds the verdicts of this stage on a row.
    fn push_own(&self, row: usize, all: &mut VerdictColumns) {
        let end = match self.states[row] {
            RowState::RejectedBefore => 0,
            RowState::RejectedBy(rule) => usize::from(rule) + 1,
            RowState::Kept => self.counts.len(),
        };
        for (rule, count) in self.counts[..end].iter().enumerate() {
            let rule = rule as u16;
            let reason = self.reasons.get(&(row, rule)).map_or("", |reason| reason);
            all.push(count.rule, self.states[row] != RowState::RejectedBy(rule), reason);
        }
    }
}

/// Verdicts of all rows of a batch, one after the other.
#[derive(Default)]
struct VerdictColumns {
    rules: StringBuilder,
    keeps: Vec<bool>,
    reasons: StringBuilder,
}

impl VerdictColumns {
    fn push(&mut self, rule: &str, keep: bool, reason: &str) {
        self.rules.append_value(rule);
        self.keeps.push(keep);
        self.reasons.append_value(reason);
    }
    /// Returns lists of these lengths, of the type of `like`.
    fn finish(mut self, like: &ListArray, lengths: &[usize]) -> Result<ArrayRef> {
        let DataType::List(item) = like.data_type() else { return Err(unusual()) };
        let DataType::Struct(fields) = item.data_type() else { return Err(unusual()) };
        let keeps = Arc::new(BooleanArray::from(self.keeps));
        let columns: Vec<ArrayRef> = vec![Arc::new(self.rules.finish()), keeps, Arc::new(self.reasons.finish())];
        let values = StructArray::try_new(fields.clone(), columns, None).map_err(|_| unusual())?;
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let lists = ListArray::try_new(item.clone(), offsets, Arc::new(values), None).map_err(|_| unusual())?;
        Ok(Arc::new(lists))
    }
}

fn verdict_lists(batch: &RecordBatch) -> Result<&ListArray> {
    batch.column_by_name("verdicts").and_then(|column| column.as_list_opt()).ok_or_else(unusual)
}

fn keeps(lists: &ListArray) -> Result<&BooleanArray> {
    let parts = lists.values().as_struct_opt();
    parts.and_then(|parts| parts.column_by_name("keep")?.as_boolean_opt()).ok_or_else(unusual)
}

fn text_part<'a>(parts: &'a StructArray, name: &str) -> Result<&'a StringArray> {
    parts.column_by_name(name).and_then(|column| column.as_string_opt()).ok_or_else(unusual)
}

fn unusual() -> Error {
    Error::bug("the column `verdicts` has another type than trajectories have")
}

//! Applies rules to rows. Each rule judges the rows that are still kept, and its verdicts are recorded in the rows.

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_tables::{Trajectory, Verdict};

/// Number of rows that one rule judged and rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Kind of the rule.
    pub rule: &'static str,
    /// Rows that reached the rule.
    pub judged: usize,
    /// Rejected rows by reason code.
    pub reasons: BTreeMap<String, usize>,
}

impl Count {
    /// Returns the number of rejected rows.
    pub fn rejected(&self) -> usize {
        self.reasons.values().sum()
    }
}

/// Returns whether every rule so far keeps the row.
pub fn is_kept(row: &Trajectory) -> bool {
    row.verdicts.iter().all(|v| v.keep)
}

/// Runs one rule on all rows that are still kept, adds its verdicts to these rows, and returns the counts.
pub fn apply(rule: &dyn FilterRule, rows: &mut [Trajectory], world: &RuleContext<'_>) -> Result<Count> {
    let alive: Vec<usize> = (0..rows.len()).filter(|i| is_kept(&rows[*i])).collect();
    let judged: Vec<&Trajectory> = alive.iter().map(|i| &rows[*i]).collect();
    let judgments = rule.judge(&judged, world).map_err(|e| e.at(format!("rule `{}`", rule.kind())))?;
    if judgments.len() != alive.len() {
        return Err(Error::bug(format!("rule `{}` judged {} of {} rows", rule.kind(), judgments.len(), alive.len())));
    }
    let mut count = Count { rule: rule.kind(), judged: alive.len(), reasons: BTreeMap::new() };
    for (i, judgment) in alive.into_iter().zip(judgments) {
        let (keep, reason) = match judgment {
            RuleVerdict::Keep => (true, String::new()),
            RuleVerdict::KeepWithReason(reason) => (true, reason),
            RuleVerdict::Reject { code, detail } => {
                *count.reasons.entry(code.to_string()).or_insert(0) += 1;
                (false, if detail.is_empty() { code.to_string() } else { format!("{code}: {detail}") })
            }
        };
        rows[i].verdicts.push(Verdict { rule: rule.kind().to_string(), keep, reason });
    }
    Ok(count)
}

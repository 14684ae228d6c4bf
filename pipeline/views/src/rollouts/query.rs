//! Selection and order of rollouts.

use crate::search::{NumberRange, PatternKind};
use std::str::FromStr;
use trainyard_tables::{AnswerVerdict, FactTable, RolloutFacts};

/// Rows whose facets are counted at once, unless all are requested.
pub const PART: u64 = 100_000;
/// Number of facets.
pub(super) const FACETS: usize = 8;

/// Filters of rollouts; the default selects all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloutFilters {
    /// Verdict on the answer.
    pub verdict: Option<AnswerVerdict>,
    /// Reward.
    pub reward: Option<NumberRange>,
    /// Difficulty of the problem.
    pub level: Option<NumberRange>,
    /// Number of agent turns.
    pub turns: Option<NumberRange>,
    /// Number of failed tool calls.
    pub tool_errors: Option<NumberRange>,
    /// Reason for the end.
    pub stop: Option<String>,
    /// Number of the update that used the row.
    pub step: Option<NumberRange>,
    /// Id of the problem.
    pub problem: Option<String>,
}

/// Order of rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RolloutSort {
    /// Order of the table.
    #[default]
    Row,
    /// Reward.
    Reward,
    /// Number of turns.
    Turns,
    /// Number of tokens.
    Tokens,
}

impl RolloutSort {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Row, Self::Reward, Self::Turns, Self::Tokens];

    /// Returns the name of the order.
    pub fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Reward => "reward",
            Self::Turns => "turns",
            Self::Tokens => "tokens",
        }
    }
    /// Sorts rows; those with equal values stay in the order of the table.
    pub(super) fn apply(self, rows: &mut [RolloutFacts], is_descending: bool) {
        let compare = |a: &RolloutFacts, b: &RolloutFacts| match self {
            Self::Row => a.row.cmp(&b.row),
            Self::Reward => a.reward.total_cmp(&b.reward),
            Self::Turns => a.turns.cmp(&b.turns),
            Self::Tokens => a.tokens.cmp(&b.tokens),
        };
        rows.sort_by(|a, b| if is_descending { compare(b, a) } else { compare(a, b) });
    }
}

impl FromStr for RolloutSort {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|sort| sort.name() == name);
        found.ok_or_else(|| format!("`{name}` is no order: write row, reward, turns or tokens"))
    }
}

/// Text that a message of the rollouts must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundText {
    /// Text or regular expression.
    pub pattern: String,
    /// How the pattern is read.
    pub kind: PatternKind,
}

/// Page of a list of rollouts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloutListQuery {
    /// Filters.
    pub filters: RolloutFilters,
    /// Text in a message; the rows that have it are examined, wherever they are in the table.
    pub find: Option<FoundText>,
    /// Order.
    pub sort: RolloutSort,
    /// Whether the order is reversed.
    pub is_descending: bool,
    /// Number of matching rows to skip.
    pub from: usize,
    /// Maximum number of rows.
    pub limit: usize,
    /// Number of the part of [`PART`] rows that is examined, from 0.
    pub part: u64,
    /// Whether all rows of the table are examined.
    pub is_whole: bool,
}

/// Filters with the numbers of one [`FactTable`].
pub(super) struct FactFilters<'a> {
    filters: &'a RolloutFilters,
    /// Number of the problem; `Some(None)` if no row has it.
    problem: Option<Option<u32>>,
    stop: Option<Option<u32>>,
}

impl<'a> FactFilters<'a> {
    pub fn new(filters: &'a RolloutFilters, facts: &FactTable) -> Self {
        let place = |names: &[String], name: &Option<String>| {
            name.as_ref().map(|name| names.iter().position(|known| known == name).map(|at| at as u32))
        };
        let (problem, stop) = (place(&facts.problems, &filters.problem), place(&facts.stops, &filters.stop));
        Self { filters, problem, stop }
    }
    /// Returns for each facet whether its filter selects the row, in the order of the facets.
    pub fn select(&self, row: &RolloutFacts) -> [bool; FACETS] {
        let within = |range: Option<NumberRange>, number: f64| range.is_none_or(|range| range.contains(number));
        let filters = self.filters;
        let step = filters.step.is_none_or(|range| row.update.is_some_and(|step| range.contains(f64::from(step))));
        [
            filters.verdict.is_none_or(|verdict| verdict == row.verdict),
            within(filters.reward, row.reward),
            within(filters.level, f64::from(row.level)),
            within(filters.turns, f64::from(row.turns)),
            within(filters.tool_errors, f64::from(row.tool_errors)),
            self.stop.is_none_or(|stop| stop == Some(row.stop)),
            step,
            self.problem.is_none_or(|problem| problem == Some(row.problem)),
        ]
    }
}

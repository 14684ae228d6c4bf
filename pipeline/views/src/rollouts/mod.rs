//! Rollouts of an artifact of trajectories: a list with facets, one rollout, its group, and its problem over updates.
//!
//! ```text
//! list     facts of the rows (numbers and words) ─▶ filters and counts ─▶ texts of 50 rows
//! detail   one row without its token ids, and the ids of the rows around it for the tree of forks
//! group    facts, then the rows of the group
//! problem  ids of problems, then the facts of the problem's rows
//! steps    numbers of updates of all rows
//! ```
//!
//! Rows are read by the parts of the table that have them. Facets count at most [`PART`] rows unless all are requested.

mod detail;
mod facets;
mod forks;
mod group;
mod list;
mod message_page;
mod problem;
mod query;
mod reading;
mod record;
mod steps;
#[cfg(test)]
mod tests;

pub use detail::{ContextRow, MessagePart, RolloutDetail, detail, message_text};
pub use facets::{Facet, FacetValue};
pub use forks::{ForkMember, ForkNode};
pub use group::{AdvantageRange, GroupChoice, GroupMember, GroupQuery, RolloutGroup, group};
pub use list::{RolloutList, RolloutMatch, RolloutRow, list};
pub use message_page::{MessagePage, message_page};
pub use problem::{ProblemHistory, ProblemStep, problem};
pub use query::{FoundText, PART, RolloutFilters, RolloutListQuery, RolloutSort};
pub use record::{TableRecord, record};
pub use steps::{RolloutStep, RolloutSteps, steps};

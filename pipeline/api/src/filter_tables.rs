//! Names of the tables and columns of the report of `data/filter`, which pages read.

/// Kind of the stage.
pub const FILTER: &str = "data/filter";
/// Output with the rows that no rule rejected.
pub const KEPT: &str = "kept";
/// Output with the rows that a rule rejected.
pub const REJECTED: &str = "rejected";
/// Output with the report.
pub const REPORT: &str = "report";
/// Rules with the numbers of rows that they judged, rejected and edited: columns `rule`, `judged`, `rejected`, and
/// `edited` if a rule edits.
pub const RULES: &str = "Rules, in order";
/// Rows by rule and reason: columns `rule`, `reason`, `rows`.
pub const REASONS: &str = "Reasons";
/// First rejected rows of each reason: columns `rule`, `reason`, `row`, `detail`.
pub const EXAMPLES: &str = "Examples, the first rows of each reason";
/// Reason code of the rule `near_duplicates`; the detail is `of ID (SIMILARITY)`.
pub const NEAR_DUPLICATE: &str = "near_duplicate";

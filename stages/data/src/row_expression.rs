//! Checks SQL expressions over the columns of rows (`where`, `keep`) before the rows exist.

use crate::facts::meta_columns;
use std::collections::BTreeSet;
use trainyard_core::suggest::nearest;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};
use trainyard_query::{FilterColumns, filter_columns};
use trainyard_tables::{ExtraColumns, Problem, TableRow, Trajectory};

/// Table whose columns an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowTable {
    /// Rows of kind `problems`.
    Problems,
    /// Rows of kind `trajectories`.
    Trajectories,
}

impl RowTable {
    /// Returns the columns that an expression reads. Errors: invalid, if no table can answer it.
    fn columns(self, expression: &str) -> Result<FilterColumns> {
        let schema = match self {
            Self::Problems => Problem::schema(ExtraColumns::ALL),
            Self::Trajectories => Trajectory::schema(ExtraColumns::ALL),
        };
        filter_columns(&schema, expression)
    }
    fn name(self) -> &'static str {
        match self {
            Self::Problems => "problems",
            Self::Trajectories => "trajectories",
        }
    }
}

/// Returns the problems of the expression at `pointer`: each name that is no column of such a table, or why no table
/// can answer it.
pub fn problems(table: RowTable, pointer: &str, expression: &str) -> Vec<OptionProblem> {
    let columns = match table.columns(expression) {
        Ok(columns) => columns,
        Err(Error { message, help, .. }) => return vec![OptionProblem { pointer: pointer.into(), message, help }],
    };
    let list = columns.known.join(", ");
    let problem = |name: &String| {
        let near = nearest(name, columns.known.iter().map(String::as_str).filter(|known| !known.ends_with('…')));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let help = format!("{near}a column `{name}` of an imported source is `meta_{name}`; the columns are: {list}");
        OptionProblem::new(pointer, format!("{} have no column `{name}`", table.name())).help(help)
    };
    columns.unknown.iter().map(problem).collect()
}

/// Returns a warning for each column `meta_…` of the expression at `pointer` that the first rows of the imported
/// sources of the input `port` lack; none if they are not known.
pub fn warnings(
    table: RowTable,
    pointer: &str,
    expression: &str,
    inputs: &WiredInputs,
    port: &str,
) -> Vec<OptionProblem> {
    let (Some(known), Ok(columns)) = (meta_columns(inputs, port), table.columns(expression)) else {
        return Vec::new();
    };
    let lacks = |name: &&String| !known.iter().any(|known| known.eq_ignore_ascii_case(name));
    columns.of_meta.iter().filter(lacks).map(|name| absent(pointer, name, &known)).collect()
}

fn absent(pointer: &str, name: &str, known: &BTreeSet<String>) -> OptionProblem {
    let message = format!("the first rows of the imported source have no column for `{name}`");
    let near = nearest(name, known.iter().map(String::as_str));
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let list = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let help = if list.is_empty() { "they have no further columns".to_string() } else { format!("they give: {list}") };
    OptionProblem::new(pointer, message).help(format!("{near}{help}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::META_COLUMNS;
    use serde_json::json;
    use trainyard_core::Facts;

    #[test]
    fn unknown_columns_are_named_with_the_nearest_and_all_columns() {
        let found = problems(RowTable::Trajectories, "/where", "quality > 0.5 and tool_error = 0");
        let messages: Vec<&str> = found.iter().map(|p| p.message.as_str()).collect();
        let expected = ["trajectories have no column `quality`", "trajectories have no column `tool_error`"];
        assert_eq!(messages, expected);
        let help = |i: usize| found[i].help.as_deref().unwrap();
        assert!(
            help(0).starts_with("a column `quality` of an imported source is `meta_quality`; the columns are: id,")
        );
        assert!(help(1).starts_with("did you mean `tool_errors`? "), "{}", help(1));
        assert!(help(0).ends_with("meta_…"), "{}", help(0));
        assert!(found.iter().all(|p| p.pointer == "/where"));
        assert_eq!(problems(RowTable::Problems, "/where", "level < 4 and meta_lang = 'de'"), []);
        assert_eq!(problems(RowTable::Problems, "/where", "reward > 0").len(), 1, "a column of trajectories");
        assert!(problems(RowTable::Problems, "/where", "level <")[0].message.contains("cannot be read"));
    }

    #[test]
    fn columns_that_the_first_rows_lack_are_warnings() {
        let of = |names: &[&str]| Facts::from([(META_COLUMNS.to_string(), json!(names))]);
        let mut inputs = WiredInputs::default();
        inputs.wire("rows", vec![of(&["meta_quality"]), of(&["meta_lang"])]);
        let found = |text: &str, inputs: &WiredInputs| warnings(RowTable::Problems, "/where", text, inputs, "rows");
        assert_eq!(found("meta_quality > 0 and META_lang = 'de' and level = 1", &inputs), []);
        let wrong = found("meta_qualty > 0", &inputs);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].message.contains("`meta_qualty`"), "{wrong:?}");
        let help = wrong[0].help.as_deref();
        assert_eq!(help, Some("did you mean `meta_quality`? they give: meta_lang, meta_quality"));
        inputs.wire("rows", vec![of(&["meta_quality"]), Facts::new()]);
        assert_eq!(found("meta_qualty > 0", &inputs), [], "one source is not known");
    }
}

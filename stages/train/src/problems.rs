//! The problems at a stage's port: none of them twice.
//!
//! Why so: results, draws and paired differences know a problem by its id, so two of one id would be one with twice the samples. That
//! is said before the first episode, not after the last. Refuses: a repeated id, with both rows.

use std::collections::BTreeMap;
use trainyard_api::InputArtifact;
use trainyard_core::{Error, Result};
use trainyard_tables::{Problem, read_problems};

/// All rows of an artifact. Errors: data, when two rows have one id.
pub fn read(artifact: &InputArtifact, port: &str) -> Result<Vec<Problem>> {
    let problems = read_problems(&artifact.parquet())?;
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, problem) in problems.iter().enumerate() {
        if let Some(before) = first.insert(&problem.id, row) {
            let message =
                format!("input `{port}` holds problem `{}` twice, in rows {} and {}", problem.id, before + 1, row + 1);
            return Err(Error::data(message).help("remove the repeated problem where the table is made"));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, input_problems, sums};
    use trainyard_core::ErrorKind;

    #[test]
    fn a_repeated_problem_is_named_with_both_rows() {
        let (mut context, folder) = context();
        let mut problems = sums(3, 3, 1);
        input_problems(&mut context, folder.path(), "problems", &problems);
        assert_eq!(read(context.input("problems").unwrap(), "problems").unwrap(), problems);
        problems.push(problems[1].clone());
        input_problems(&mut context, folder.path(), "again", &problems);
        let e = read(context.input("again").unwrap(), "again").unwrap_err();
        assert!(
            e.kind == ErrorKind::Data && e.message == "input `again` holds problem `sum-1` twice, in rows 2 and 4",
            "{e}"
        );
    }
}

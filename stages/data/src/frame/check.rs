//! Checks statements before a run: their tables are inputs, and their columns and results fit the kinds of the inputs.

use super::config::FrameConfig;
use super::evaluate::rows;
use trainyard_core::suggest::nearest;
use trainyard_core::{ArtifactKind, Error, OptionProblem, WiredInputs};
use trainyard_frames::sql::{FrameSettings, FrameStatement, FrameTable};

/// Returns the problem of an error about the statement.
pub fn at_sql(error: Error) -> OptionProblem {
    OptionProblem { pointer: "/sql".into(), message: error.message, help: error.help }
}

/// Returns the contradictions between a statement and the inputs. Columns are checked if the kinds of all tables
/// determine them.
pub fn problems(config: &FrameConfig, statement: &FrameStatement, inputs: &WiredInputs) -> Vec<OptionProblem> {
    let names: Vec<&str> = inputs.ports().collect();
    let mut problems: Vec<OptionProblem> = Vec::new();
    for name in statement.tables().iter().filter(|name| inputs.get(name).is_none()) {
        problems.push(unknown_table(name, &names));
    }
    for name in statement.own_tables().iter().filter(|name| inputs.get(name).is_some()) {
        let problem = OptionProblem::new("/sql", format!("`with` defines `{name}`, which is also an input"));
        problems.push(problem.help("rename the table of `with`"));
    }
    for name in names.iter().filter(|name| !statement.tables().contains(**name)) {
        let problem = OptionProblem::new(format!("/{name}"), format!("`sql` does not read the input `{name}`"));
        problems.push(problem.help("leave the input out, or name it after `from` or `join`"));
    }
    if problems.is_empty()
        && let Some(tables) = empty_tables(statement, inputs)
        && let Err(error) = rows(config, &tables, &FrameSettings::new(config.seed, config.max_rows))
    {
        problems.push(at_sql(error));
    }
    problems
}

fn unknown_table(name: &str, inputs: &[&str]) -> OptionProblem {
    let near = nearest(name, inputs.iter().copied()).map(|near| format!("did you mean `{near}`? "));
    let known = if inputs.is_empty() { String::new() } else { format!("; the inputs are {}", inputs.join(", ")) };
    OptionProblem::new("/sql", format!("`sql` reads `{name}`, which is no input of the stage"))
        .help(format!("{}add `{name}: ${{{{ stages.<id>.<port> }}}}` under `with`{known}", near.unwrap_or_default()))
}

/// Returns tables without rows that have the columns of the inputs; `None` if those of one are not known.
fn empty_tables(statement: &FrameStatement, inputs: &WiredInputs) -> Option<Vec<FrameTable>> {
    let empty = |name: &String| match inputs.kind(name)? {
        ArtifactKind::Problems => Some(FrameTable::problems(name, Vec::new())),
        ArtifactKind::Trajectories => Some(FrameTable::trajectories(name, Vec::new())),
        _ => None,
    };
    statement.tables().iter().map(empty).collect()
}

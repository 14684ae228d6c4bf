//! Shows the tokens of one trajectory.

use super::rows::position_of;
use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_note, print_text};
use crate::output::style::Style;
use crate::output::tokens;
use crate::session::AppSession;
use trainyard_core::{Error, Result};
use trainyard_views::token_text::{RowTokens, row_tokens};
use trainyard_views::tokens::TokenValue;
use trainyard_views::{find, table};

/// Prints the tokens of the row at a position or with an id. Errors: invalid (no such row, a row without the value),
/// those of the store.
pub fn run(
    session: &AppSession,
    artifact: &str,
    row: Option<usize>,
    id: Option<&str>,
    value: Option<&str>,
    format: OutputFormat,
) -> Result<CliExit> {
    let found = session.block_on(find::artifact(&session.store, artifact))?;
    let table = session.block_on(table::open(&session.store, artifact, &found))?;
    let position = match (row, id) {
        (Some(row), _) => row,
        (None, Some(id)) => position_of(artifact, &table, id)?,
        (None, None) => {
            return Err(Error::invalid("`--tokens` shows the tokens of one row").help("add `--row N` or `--id ID`"));
        }
    };
    let value = value.and_then(TokenValue::named);
    let everything = (0, usize::MAX);
    let read = row_tokens(&session.store, artifact, &found, position as u64, value, everything);
    let RowTokens { page, has_text } = session.block_on(read)?;
    if !has_text && format == OutputFormat::Text {
        print_note("no model among the artifact's inputs has its tokenizer, so tokens are shown by their ids");
    }
    match format {
        OutputFormat::Json => print_json(&page)?,
        OutputFormat::Text => print_text(&tokens::text(&page, Style::of_stdout())),
    }
    Ok(CliExit::Done)
}

//! Converts SQLite's errors. Nearly all of them are mistakes in the statement.

use rusqlite::{Error as Sqlite, ErrorCode};
use trainyard_core::{Error, ErrorKind};

/// The message of a statement that ran out of memory.
const OUT_OF_MEMORY: &str = "the statement ran out of memory";

const NO_TABLE: &str = "no such table";
const TABLES: &str = "the artifact of the command is `self`; other tables are named like artifacts, e.g. \
                      `from self s join latest/test/problems p on p.id = s.problem_id`";

/// Converts SQLite's error about `subject` (`this query`, ``the filter `…` ``).
pub(crate) fn query_error(subject: &str, error: &Sqlite) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::OutOfMemory) {
        return Error::data(OUT_OF_MEMORY).help("select fewer columns, or filter rows before they are joined");
    }
    match error {
        Sqlite::SqlInputError { msg, .. } | Sqlite::SqliteFailure(_, Some(msg)) => {
            let error = Error::invalid(format!("{subject}: {}", plain_message(msg)));
            if msg.starts_with(NO_TABLE) { error.help(TABLES) } else { error }
        }
        Sqlite::UserFunctionError(cause) => Error::invalid(format!("{subject}: {cause}")),
        other => Error::invalid(format!("{subject}: {other}")),
    }
}

fn plain_message(message: &str) -> String {
    match message.split_once(": ") {
        Some(("no such column", name)) => {
            // SQLite adds advice after a dash where the name was in double quotes.
            let name = name.split(" - ").next().unwrap_or(name).trim_matches('"');
            format!("there is no column `{name}`")
        }
        Some((NO_TABLE, name)) => format!("there is no table `{name}`"),
        Some(("no such function", name)) => format!("there is no function `{name}`"),
        _ => message.to_string(),
    }
}

/// Whether a query failed because its process may not use more memory.
pub fn is_out_of_memory(error: &Error) -> bool {
    error.kind == ErrorKind::Data && error.message.ends_with(OUT_OF_MEMORY)
}

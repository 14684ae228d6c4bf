//! One read-only SQL statement over a table artifact.

use crate::args::Format;
use crate::exit::Exit;
use crate::names;
use crate::output::human::{print_json, print_text};
use crate::session::Session;
use serde_json::json;
use trainyard_core::{Error, Result};
use trainyard_frames::{QueryLimits, query};

/// The table's name in statements.
const SELF: &str = "self";

/// `words` are the artifact and the statement; at most `limit` rows come back.
pub fn run(session: &Session, words: &[String], limit: usize, format: Format) -> Result<Exit> {
    let [artifact, statement] = words else {
        return Err(Error::invalid("a query needs an artifact and a statement")
            .help("e.g. `trainyard artifacts query latest/rl/trajectories \"select level, avg(reward) from self group by level\"`"));
    };
    let found = session.block_on(names::artifact(&session.store, artifact))?;
    let folder = tempfile::tempdir().map_err(|e| Error::retryable(format!("no scratch folder: {e}")))?;
    session.block_on(session.store.fetch_output(found.output(), folder.path()))?;
    let table = folder.path().join("data.parquet");
    if !table.is_file() {
        return Err(
            Error::invalid(format!("{artifact} is a {}, no table", found.output().kind)).help("`trainyard artifacts show` lists its files")
        );
    }
    let result = query(&[(SELF, table.as_path())], statement, QueryLimits { rows: limit, ..QueryLimits::default() })?;
    match format {
        Format::Json => print_json(&json!({"columns": result.columns, "rows": result.rows, "truncated": result.truncated}))?,
        Format::Text => print_text(&result.to_string()),
    }
    Ok(Exit::Done)
}

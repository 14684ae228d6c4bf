//! What an export writes, and where it may.

use crate::args::ExportArgs;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Endings that mean one file with the rows of a table; any other name is a folder.
const ENDINGS: [&str; 3] = ["csv", "jsonl", "parquet"];

/// What was written.
#[derive(Default)]
pub struct Exported {
    /// Their places.
    pub files: Vec<String>,
    /// Rows of a table.
    pub rows: Option<u64>,
    /// Columns.
    pub left_out: Vec<String>,
    /// What another program's form cannot hold, and how often.
    pub lost: Vec<(&'static str, u64)>,
}

/// The ending of a file of rows.
pub fn ending(to: &Path) -> Option<&str> {
    to.extension().and_then(|e| e.to_str()).filter(|e| ENDINGS.contains(e))
}

/// Errors: invalid, for a folder that holds something, unless it may.
pub fn expect_room(args: &ExportArgs) -> Result<()> {
    let is_taken = std::fs::read_dir(&args.to).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken && !args.force {
        return Err(Error::invalid(format!("the folder {} is not empty", args.to.display()))
            .help("name a new folder; `--force` writes into this one and leaves other files in it"));
    }
    Ok(())
}

/// Errors: invalid, where one file is written and a card is asked for.
pub fn expect_no_card(args: &ExportArgs) -> Result<()> {
    if args.card && ending(&args.to).is_some() {
        return Err(Error::invalid("a card stands beside the files of a folder").help("name a folder"));
    }
    Ok(())
}

//! Defines the result of an export, and checks its destination.

use crate::args::ExportArgs;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Extension of a log of Inspect, which only the format `inspect` writes.
pub const INSPECT_LOG: &str = "eval";

/// Extensions of a destination that is one file of rows; other names are folders.
const EXTENSIONS: [&str; 4] = ["csv", INSPECT_LOG, "jsonl", "parquet"];

/// Files and rows that an export wrote.
#[derive(Default)]
pub struct ExportResult {
    pub files: Vec<String>,
    /// Number of rows of a table.
    pub rows: Option<u64>,
    /// Columns that were left out.
    pub left_out: Vec<String>,
    /// Features that the other program's format cannot represent, and their number of occurrences.
    pub lost: Vec<(&'static str, u64)>,
}

/// Returns the extension of a file of rows, or `None` for a folder.
pub fn extension(to: &Path) -> Option<&str> {
    to.extension().and_then(|e| e.to_str()).filter(|e| EXTENSIONS.contains(e))
}

/// Rejects a folder that is not empty, unless `--force` is set. Errors: invalid.
pub fn expect_room(args: &ExportArgs) -> Result<()> {
    let is_taken = std::fs::read_dir(&args.to).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken && !args.force {
        return Err(Error::invalid(format!("the folder {} is not empty", args.to.display()))
            .help("name a new folder; `--force` writes into this one and leaves other files in it"));
    }
    Ok(())
}

/// Rejects a card for a destination that is a single file. Errors: invalid.
pub fn expect_no_card(args: &ExportArgs) -> Result<()> {
    if args.card && extension(&args.to).is_some() {
        return Err(Error::invalid("`--card` requires a folder as the destination").help("name a folder"));
    }
    Ok(())
}

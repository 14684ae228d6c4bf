//! Any bytes as a Parquet file of problems, trajectories or other rows: no panic leaves it, and the file has the rows
//! that its footer claims.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::{Scratch, permit_caught_panics};
use trainyard_tables::{read_batches, read_problems, read_schema, read_trajectories, row_count, rows_as_json};

/// Maximum rows of a file that is read as a whole.
const ROWS: u64 = 10_000;

fuzz_target!(|data: &[u8]| {
    permit_caught_panics();
    let scratch = Scratch::new();
    let path = scratch.write("rows.parquet", data);
    let _ = read_schema(path.as_path());
    let Ok(rows) = row_count(path.as_path()) else { return };
    if rows > ROWS {
        return;
    }
    let _ = (read_problems(&path), read_trajectories(&path));
    let Ok((_, batches)) = read_batches(&path) else { return };
    assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), rows);
    let _ = rows_as_json(&path, 0, ROWS as usize);
});

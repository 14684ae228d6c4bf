//! Import of many conversations: rows per second and peak memory, for one file format.
//!
//! Run with `cargo run --release -p trainyard-benches --bin import FORM [rows] [rounds]`, FORM being `jsonl`,
//! `jsonl.zst`, `jsonl.gz` or `parquet`. The file is made first, in a separate process, so that its memory is not
//! counted. A row is a question of 15 words and an answer of 25. Prints medians; results go to a temporary folder.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use trainyard_benches::{peak_memory, quantile};
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_data::import::flow::{DuplicatePolicy, ImportErrorPolicy, ImportTables, Importer};
use trainyard_data::import::rows::files;
use trainyard_data::import::{ImportContext, registry};
use trainyard_tables::TableBuilder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORDS: [&str; 12] =
    ["apples", "boxes", "each", "farmer", "gives", "how", "many", "morning", "seven", "she", "then", "twelve"];

fn text(words: usize, chance: &Chance, place: &[u64]) -> String {
    let mut draw = chance.at("words", place);
    let words: Vec<&str> = (0..words).map(|_| WORDS[draw.below(WORDS.len() as u64) as usize]).collect();
    words.join(" ")
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::bug(error)
}

/// Returns question and answer of a row.
fn row(chance: &Chance, i: u64) -> (String, String) {
    (text(15, chance, &[i, 0]), text(25, chance, &[i, 1]))
}

fn make(path: &Path, form: &str, count: u64) -> Result<()> {
    let chance = Chance::new(1);
    if form == "parquet" {
        let rows: Vec<(String, String)> = (0..count).map(|i| row(&chance, i)).collect();
        let table = TableBuilder::new()
            .string("prompt", rows.iter().map(|(question, _)| question))
            .string("completion", rows.iter().map(|(_, answer)| answer));
        return table.write(path).map(drop);
    }
    let file = BufWriter::new(File::create(path).map_err(failed)?);
    let mut out: Box<dyn Write> = match form {
        "jsonl.zst" => Box::new(zstd::Encoder::new(file, 3).map_err(failed)?.auto_finish()),
        "jsonl.gz" => Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
        _ => Box::new(file),
    };
    for i in 0..count {
        let (question, answer) = row(&chance, i);
        let line = serde_json::json!({"messages": [
            {"role": "user", "content": question}, {"role": "assistant", "content": answer},
        ]});
        writeln!(out, "{line}").map_err(failed)?;
    }
    Ok(())
}

fn import(path: &Path, form: &str) -> Result<u64> {
    let out = tempfile::tempdir().map_err(failed)?;
    let name = if form == "parquet" { "trl" } else { "openai" };
    let format = *registry::family().build(&serde_json::json!(name), &())?;
    let reading = ImportContext { name: "bench".into(), split: "train".into(), ..ImportContext::default() };
    let import = Importer {
        format,
        reading: &reading,
        duplicates: DuplicatePolicy::Keep,
        on_error: ImportErrorPolicy::Fail,
        max_quarantined: 0.0,
        on_chunk: &|_| Ok(()),
    };
    let places = ["trajectories", "quarantine"].map(|port| (port, out.path().join(port)));
    let counts =
        import.run(&files::source_files(path, Some(format), "train")?, &mut ImportTables::at(places.into()))?;
    Ok(counts.taken)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, usual: &str| arguments.get(i).cloned().unwrap_or_else(|| usual.to_string());
    let form = argument(0, "jsonl");
    let count: u64 = argument(1, "1000000").parse().map_err(failed)?;
    let rounds: usize = argument(2, "3").parse().map_err(failed)?;
    if let Some(path) = arguments.get(3) {
        return make(Path::new(path), &form, count);
    }
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = folder.path().join(format!("rows.{form}"));
    let program = std::env::current_exe().map_err(failed)?;
    let made = Command::new(program).args([&form, &count.to_string(), "0"]).arg(&path).status().map_err(failed)?;
    if !made.success() {
        return Err(failed("the rows could not be made"));
    }
    let clock = SystemClock::default();
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let start = clock.monotonic();
        let rows = import(&path, &form)?;
        rates.push(rows as f64 / (clock.monotonic() - start).as_secs_f64());
    }
    let size = std::fs::metadata(&path).map_err(failed)?.len() as f64 / f64::from(1 << 20);
    println!(
        "{form}: {:.0} rows/s, largest {:.0} MiB ({count} rows, {size:.0} MiB, {} threads; median of {rounds})",
        quantile(&mut rates, 0.5),
        peak_memory().unwrap_or(0.0),
        rayon::current_num_threads()
    );
    Ok(())
}

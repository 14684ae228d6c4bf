//! Any bytes as a file of rows to import: no panic leaves it, and every row has columns or a reason. The first byte
//! selects the ending of the file's name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use trainyard_data::import::rows::{self, RawRow};
use trainyard_data::import::{ImportContext, ImportFormat, ImportRow, registry};
use trainyard_fuzz::{Scratch, permit_caught_panics};

/// Maximum bytes of a file after decompression.
const BYTES: u64 = 1 << 20;
/// Maximum rows that are converted.
const ROWS: usize = 200;

fn ending(choice: u8) -> &'static str {
    match choice {
        b'l' => "jsonl",
        b'j' => "json",
        b'c' => "csv",
        b't' => "tsv",
        b'p' => "parquet",
        b'z' => "jsonl.zst",
        b'g' => "csv.gz",
        _ => "txt",
    }
}

fn formats() -> Vec<&'static dyn ImportFormat> {
    let family = registry::family();
    let build = |name| *family.build(&json!(name), &()).expect("a registered format is built");
    family.names().into_iter().map(build).collect()
}

fuzz_target!(|data: &[u8]| {
    permit_caught_panics();
    let Some((choice, content)) = data.split_first() else { return };
    let scratch = Scratch::new();
    let path = scratch.write(&format!("rows.{}", ending(*choice)), content);
    let Ok(rows) = rows::open(&path, BYTES) else { return };
    let context = ImportContext { name: "fuzz".into(), split: "train".into(), ..ImportContext::default() };
    let formats = formats();
    let converters: Vec<_> = formats.iter().filter_map(|format| format.open(&path, &context).ok()).collect();
    for row in rows.take(ROWS) {
        let Ok(RawRow { line, content }) = row else { return };
        let Ok(columns) = content.columns() else { continue };
        for format in &formats {
            let _ = (format.recognizes(&columns), format.environment(&columns));
        }
        let row = ImportRow { columns, line, place: line.to_string() };
        for convert in &converters {
            let _ = convert(&row);
        }
    }
});

//! Files of rows: damaged, nested, packed, and mutated from seeds.

use super::table::{Case, cases};
use super::{assert_none, bounded, judge, message};
use crate::kit::{Sandbox, repository};
use std::io::Write as _;
use std::process::{Command, Stdio};

const GOOD: &str =
    "{\"question\": \"1+2?\", \"answer\": \"#### 3\"}\n{\"question\": \"1+1?\", \"answer\": \"#### 2\"}\n";
/// Mutated copies of each file.
const COPIES: u64 = 12;

type Packed = (&'static str, &'static str, fn() -> Vec<u8>, i32, &'static str);

/// Cases of bytes: name, ending of the file's name, content, exit code of `run`, part of the message.
const PACKED: &[Packed] = &[
    ("UTF-16", "jsonl", || GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect(), 1, "cannot be read"),
    ("a byte order mark", "jsonl", || [&b"\xef\xbb\xbf"[..], GOOD.as_bytes()].concat(), 0, "quarantined 0"),
    ("gzip that is cut off", "jsonl.gz", || cut(&gzip(GOOD.repeat(500).as_bytes()), 20), 1, "cut off or corrupt"),
    ("gzip in gzip", "jsonl.gz", || gzip(&gzip(GOOD.as_bytes())), 1, "not UTF-8"),
    ("gzip with a wrong checksum", "jsonl.gz", wrong_checksum, 1, "cut off or corrupt"),
    ("gzip of 64 MiB of spaces", "jsonl.gz", || gzip(&padded(b' ')), 1, "`max_file_bytes`"),
    ("gzip of 64 MiB of empty lines", "jsonl.gz", || gzip(&padded(b'\n')), 1, "`max_file_bytes`"),
    ("only a head of gzip", "jsonl.gz", || b"\x1f\x8b\x08\0\0\0\0\0\0\0".to_vec(), 1, "cut off or corrupt"),
    ("zst of 64 MiB of spaces", "jsonl.zst", || zst(&padded(b' ')), 1, "`max_file_bytes`"),
    ("zst of 64 MiB of empty lines", "jsonl.zst", || zst(&padded(b'\n')), 1, "`max_file_bytes`"),
    ("zst that is cut off", "jsonl.zst", || cut(&zst(GOOD.repeat(500).as_bytes()), 5), 1, "cut off or corrupt"),
    ("zst with a bad frame", "jsonl.zst", || [ZST, &[255; 9]].concat(), 1, "cut off or corrupt"),
    ("zst with a window of 2 GiB", "jsonl.zst", || [ZST, b"\0\xa8\x01\0\0"].concat(), 1, "too much memory"),
    ("only a head of zst", "jsonl.zst", || ZST.to_vec(), 1, "cut off or corrupt"),
    ("an empty Parquet file", "parquet", Vec::new, 1, NO_PARQUET),
    ("only the magic of Parquet", "parquet", || b"PAR1PAR1".to_vec(), 1, NO_PARQUET),
    ("a footer of 4 GiB", "parquet", || parquet(b"", u32::MAX), 1, NO_PARQUET),
    ("a footer of 2 GiB", "parquet", || parquet(&[0; 100], 0x7fff_fff0), 1, NO_PARQUET),
    ("a footer of zeros", "parquet", || parquet(&[0; 100], 100), 1, NO_PARQUET),
    ("a footer of nested lists", "parquet", || parquet(&b"\x19\xf9".repeat(30_000), 60_000), 1, NO_PARQUET),
    ("an encrypted footer", "parquet", || parquet_of(b"PARE", &[0; 100], 16), 1, NO_PARQUET),
    ("Parquet in gzip", "parquet", || gzip(b"PAR1PAR1"), 1, "inside of an archive"),
];

const ZST: &[u8] = b"\x28\xb5\x2f\xfd";
const NO_PARQUET: &str = "is corrupt, truncated or not a Parquet file";

fn table() -> Vec<Case> {
    cases(include_str!("rows.txt"))
}

/// Files that are mutated: ending, format, content.
fn originals() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let sample = |name: &str| std::fs::read(repository().join("stages/data/src/import/samples").join(name)).unwrap();
    vec![
        ("parquet", "verl", sample("verl.parquet")),
        ("parquet", "toolrl", sample("toolrl.parquet")),
        ("jsonl", "gsm8k", GOOD.repeat(5).into_bytes()),
        ("jsonl.gz", "gsm8k", gzip(GOOD.repeat(5).as_bytes())),
        ("jsonl.zst", "gsm8k", zst(GOOD.repeat(5).as_bytes())),
        ("json", "gsm8k", format!("[{}]", GOOD.trim().replace('\n', ",")).into_bytes()),
        ("csv", "gsm8k", b"question,answer\n\"a, b\",#### 1\nc,\"#### 2\n\"\n".to_vec()),
    ]
}

pub fn count() -> usize {
    table().len() + PACKED.len() + originals().len() * COPIES as usize
}

/// Writes a file of rows and a workflow that imports it.
fn sandbox(ending: &str, format: &str, content: &[u8]) -> Sandbox {
    let s = Sandbox::new();
    s.write(&format!("rows.{ending}"), content);
    s.write(
        "x.yaml",
        format!(
            "version: 1\nname: x\nstages:\n  a:\n    uses: data/import\n    with: {{source: rows.{ending}, format: \
             {format}, max_quarantined: 0.5, max_file_bytes: 33554432}}\n"
        ),
    );
    s
}

#[test]
fn hostile_rows_are_quarantined_or_named() {
    let mut failures = Vec::new();
    for case in table() {
        let (_, content) = case.files("rows", "GOOD", GOOD).remove(0);
        let ran = bounded(&sandbox(case.fields[0], "gsm8k", &content), case.name, &["run", "x.yaml"]);
        case.judge(&ran, &mut failures);
    }
    assert_none(&failures);
}

#[test]
fn hostile_archives_and_tables_are_named() {
    let mut failures = Vec::new();
    for (name, ending, content, code, words) in PACKED {
        let ran = bounded(&sandbox(ending, "gsm8k", &content()), name, &["run", "x.yaml"]);
        judge(name, &ran, *code, words, &mut failures);
    }
    assert_none(&failures);
}

#[test]
fn mutated_files_give_rows_or_errors() {
    let mut failures = Vec::new();
    for (ending, format, original) in originals() {
        for seed in 0..COPIES {
            let name = format!("{format}.{ending} of seed {seed}");
            let ran = bounded(&sandbox(ending, format, &mutated(&original, seed)), &name, &["run", "x.yaml"]);
            let said = message(&ran);
            let named = ran.code == 1 && (said.contains("rows.") || said.contains("no row of format"));
            if !(ran.code == 0 || named) || said.contains("panicked") {
                failures.push(format!("{name}: exit code {}: {said}", ran.code));
            }
        }
    }
    assert_none(&failures);
}

/// Changes one to eight bytes, half of them in the last quarter, where a Parquet file has its footer.
fn mutated(original: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut bytes = original.to_vec();
    for _ in 0..=draw(8) {
        let from = if draw(2) == 0 { 0 } else { bytes.len() * 3 / 4 };
        let at = from + draw(bytes.len() - from);
        bytes[at] = [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ (1 << draw(8))][draw(6)];
    }
    bytes
}

/// Returns good rows and 64 MiB of one byte.
fn padded(byte: u8) -> Vec<u8> {
    [GOOD.as_bytes(), &vec![byte; 64 << 20]].concat()
}

fn cut(bytes: &[u8], end: usize) -> Vec<u8> {
    bytes[..bytes.len() - end].to_vec()
}

/// Packs bytes with the program `gzip`.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut program = Command::new("gzip");
    let mut child = program.args(["-c", "-n"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, bytes) = (child.stdin.take().unwrap(), bytes.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn wrong_checksum() -> Vec<u8> {
    let mut bytes = gzip(GOOD.as_bytes());
    let end = bytes.len();
    bytes[end - 8..].fill(0);
    bytes
}

/// Returns a Parquet file whose footer claims a length.
fn parquet(content: &[u8], footer: u32) -> Vec<u8> {
    parquet_of(b"PAR1", content, footer)
}

fn parquet_of(magic: &[u8], content: &[u8], footer: u32) -> Vec<u8> {
    [magic, content, &footer.to_le_bytes(), magic].concat()
}

//! Peak memory of the stage `sft` by the number of rows: a small table, and a large one of the same short rows.
//!
//! Run with `cargo run --release -p trainyard-benches --bin sft_memory [rows] [steps]` on Linux. Tables, model and
//! trainings have a process each, so the peak (`VmHWM`) is that of one training. What the large table adds to the small
//! one is the memory beyond the model.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use trainyard_api::{DiscardingCheckpoints, InputArtifact, SilentReporter, StageContext};
use trainyard_benches::{peak_memory, random_model};
use trainyard_core::{ArtifactKind, Chance, Clock, Digest, Error, Result, SystemClock};
use trainyard_lm::ModelConfig;
use trainyard_tables::{Message, TableRowWriter, Trajectory};
use trainyard_train::stages::sft::Sft;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of the small table.
const FEW: u64 = 1_000;
/// Rows written at once.
const PIECE: u64 = 10_000;
const OPTIONS: &str = r#"{"batch_tokens": 4096, "validation_share": 0.01, "checkpoint_every": 0}"#;

/// Returns a row of about 40 tokens; three rows share a problem.
fn row(i: u64) -> Trajectory {
    let mut draws = Chance::new(1).at("row", &[i]);
    let (a, b) = (draws.below(100_000), draws.below(100_000));
    Trajectory {
        id: format!("row-{i}"),
        problem_id: format!("a-source-of-problems/train/{}", i / 3),
        messages: vec![Message::new("user", format!("{a} plus {b}?")), Message::new("assistant", (a + b).to_string())],
        ..Trajectory::default()
    }
}

/// Writes the model and a table of `rows` rows.
fn write(folder: &Path, rows: u64) -> Result<()> {
    for part in ["model", "trajectories", "out-model", "out-report", "scratch"] {
        std::fs::create_dir_all(folder.join(part)).map_err(Error::bug)?;
    }
    random_model(ModelConfig::llama(128, 32, 64, 1, 2, 2), &Chance::new(1))?.save(&folder.join("model"))?;
    let mut writer = TableRowWriter::create(&folder.join("trajectories/data.parquet"))?;
    for start in (0..rows).step_by(PIECE as usize) {
        writer.write(&(start..rows.min(start + PIECE)).map(row).collect::<Vec<_>>())?;
    }
    writer.finish().map(|_| ())
}

fn context(folder: &Path) -> StageContext {
    let input = |port: &str, kind| {
        let digest = Digest::of(port.as_bytes());
        let folder = folder.join(port);
        let artifact = InputArtifact { kind, stage_digest: digest.clone(), digest, folder, metadata: BTreeMap::new() };
        (port.to_string(), vec![artifact])
    };
    let output = |port: &str| (port.to_string(), folder.join(format!("out-{port}")));
    StageContext {
        cpus: 2,
        inputs: [input("model", ArtifactKind::Model), input("trajectories", ArtifactKind::Trajectories)].into(),
        output_folders: [output("model"), output("report")].into(),
        ..StageContext::new(folder.join("scratch"), Arc::new(SilentReporter), Arc::new(DiscardingCheckpoints))
    }
}

/// Trains in this process, and prints the peak in MiB.
fn train(folder: &Path, steps: u64) -> Result<()> {
    let mut options: serde_json::Value = serde_json::from_str(OPTIONS).map_err(Error::bug)?;
    options["steps"] = steps.into();
    let (mut context, clock) = (context(folder), SystemClock::default());
    let start = clock.monotonic();
    let stage = trainyard_api::erase(Sft::default());
    stage.run(&stage.complete(&options)?, &mut context)?;
    let seconds = (clock.monotonic() - start).as_secs_f64();
    let peak = peak_memory().ok_or_else(|| Error::bug("this system does not report peak memory"))?;
    println!("{peak} {seconds} {}", context.metrics["rows"]);
    Ok(())
}

/// Runs this program with arguments. Returns the numbers that it prints.
fn child(arguments: &[&str]) -> Result<Vec<f64>> {
    let program = std::env::current_exe().map_err(Error::bug)?;
    let output = Command::new(program).args(arguments).output().map_err(Error::bug)?;
    if !output.status.success() {
        return Err(Error::bug(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().filter_map(|n| n.parse().ok()).collect())
}

fn measure(rows: u64, steps: u64) -> Result<f64> {
    let folder = tempfile::tempdir().map_err(Error::bug)?;
    let path = folder.path().display().to_string();
    child(&["write", &path, &rows.to_string()])?;
    let numbers = child(&["train", &path, &steps.to_string()])?;
    let [peak, seconds, trained] = numbers[..] else { return Err(Error::bug(format!("unexpected: {numbers:?}"))) };
    println!("{rows} rows, {trained} of them for training, {steps} steps: peak {peak:.0} MiB, {seconds:.1} s");
    Ok(peak)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, usual: u64| arguments.get(i).and_then(|n| n.parse().ok()).unwrap_or(usual);
    match arguments.first().map(String::as_str) {
        Some("write") => write(Path::new(&arguments[1]), number(2, FEW)),
        Some("train") => train(Path::new(&arguments[1]), number(2, 20)),
        _ => {
            let (rows, steps) = (number(0, 1_000_000), number(1, 20));
            let few = measure(FEW, steps)?;
            let many = measure(rows, steps)?;
            println!("{:.0} MiB more than with {FEW} rows", many - few);
            Ok(())
        }
    }
}

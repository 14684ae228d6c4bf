//! Tokens of short conversations: rows and tokens per second on all threads of the pool, and on one.
//!
//! A row is a question of 15 words and an answer of 25. Run with `cargo run --release -p trainyard-benches --bin
//! tokenize [model folder] [rows] [rounds]`; without a folder, a model with a character tokenizer and the template
//! `compact` is made. Prints medians.

use std::path::Path;
use trainyard_benches::{peak_memory, quantile, random_model};
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_lm::examples::tokenize;
use trainyard_lm::{ModelConfig, ModelFolder};
use trainyard_tables::{Message, Trajectory};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORDS: [&str; 24] = [
    "apples", "boxes", "counts", "each", "every", "farmer", "gives", "how", "in", "many", "morning", "of", "pays",
    "seven", "sells", "she", "ten", "the", "then", "three", "to", "twelve", "walks", "week",
];

fn text(words: usize, chance: &Chance, place: &[u64]) -> String {
    let mut draw = chance.at("words", place);
    let words: Vec<&str> = (0..words).map(|_| WORDS[draw.below(WORDS.len() as u64) as usize]).collect();
    words.join(" ")
}

fn rows(count: usize) -> Vec<Trajectory> {
    let chance = Chance::new(1);
    let row = |i: u64| Trajectory {
        id: i.to_string(),
        messages: vec![
            Message::new("user", text(15, &chance, &[i, 0]) + "?"),
            Message::new("assistant", text(25, &chance, &[i, 1])),
        ],
        ..Trajectory::default()
    };
    (0..count as u64).map(row).collect()
}

fn model(folder: Option<&String>) -> Result<ModelFolder> {
    match folder.filter(|folder| !folder.is_empty()) {
        Some(folder) => ModelFolder::load(Path::new(folder)),
        None => random_model(ModelConfig::llama(128, 32, 64, 1, 2, 2), &Chance::new(1)),
    }
}

fn measure(model: &ModelFolder, rows: &[Trajectory], rounds: usize, threads: usize) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| Error::bug(format!("no threads: {e}")))?;
    let clock = SystemClock::default();
    let (mut rates, mut tokens) = (Vec::new(), 0);
    for _ in 0..rounds {
        let start = clock.monotonic();
        let made = pool.install(|| tokenize(model, rows, true));
        rates.push(rows.len() as f64 / (clock.monotonic() - start).as_secs_f64());
        tokens = 0;
        for row in made {
            tokens += row?.contexts.iter().map(|context| context.tokens.len()).sum::<usize>();
        }
    }
    let per_row = tokens as f64 / rows.len() as f64;
    let rate = quantile(&mut rates, 0.5);
    println!(
        "{threads} threads: {rate:.0} rows/s, {:.0} tokens/s ({per_row:.1} tokens a row; median of {rounds}, {} rows)",
        rate * per_row,
        rows.len()
    );
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, usual: usize| arguments.get(i).and_then(|n| n.parse().ok()).unwrap_or(usual);
    let model = model(arguments.first())?;
    let rows = rows(number(1, 50_000));
    for threads in [1, 2] {
        measure(&model, &rows, number(2, 5), threads)?;
    }
    if let Some(peak) = peak_memory() {
        println!("largest: {peak:.0} MiB");
    }
    Ok(())
}

//! An environment that is a Python program: steps per second through the bridge, in concurrent episodes.
//!
//! "Per core" divides by the processor time of the program and of this process, which writes, reads and waits. Run with
//! `cargo run --release -p trainyard-benches --bin custom_environment [seconds per figure]`. Needs `python3`.

use serde_json::json;
use std::time::Duration;
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_envs::{Environment, Episode, EpisodeStep, ToolHost, environments};
use trainyard_tables::Problem;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROGRAM: &str = r#"
import trainyard_bridge as ty

class Counter(ty.Environment):
    def reset(self, problem, seed):
        self.count = 0

    @ty.tool
    def add(self, n: int) -> str:
        """Adds."""
        self.count += n
        return str(self.count)

    def step(self, text):
        self.count += 1
        return str(self.count)

ty.run()
"#;

/// Number of turns per episode.
const TURNS: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the user and system time of this process and of ended children, in seconds.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    (11..15).map(ticks).sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Plays episodes, `together` at once, for some seconds; returns the number of steps and the time.
fn steps(
    environment: &dyn Environment,
    clock: &dyn Clock,
    together: usize,
    turn: &str,
    seconds: f64,
) -> Result<(u64, f64)> {
    let problem = Problem { id: "p".into(), ..Problem::default() };
    let turn = environment.format().parse(turn);
    let (begin, mut done, mut elapsed) = (clock.monotonic(), 0, 0.0);
    while elapsed < seconds {
        let starts = (0..together).map(|seed| environment.start(&problem, seed as u64));
        let mut episodes = starts.collect::<Result<Vec<Box<dyn Episode>>>>()?;
        for _ in 1..TURNS {
            let mut open = Vec::new();
            for episode in &mut episodes {
                if episode.step(&turn)? == EpisodeStep::Pending {
                    open.push(episode);
                }
            }
            done += together as u64;
            for episode in open {
                let mut step = None;
                while step.is_none() {
                    step = episode.poll(PATIENCE)?;
                }
                if !matches!(step, Some(EpisodeStep::Observe(_))) {
                    return Err(Error::data(format!("a step ended with {step:?}")));
                }
            }
        }
        elapsed = (clock.monotonic() - begin).as_secs_f64();
    }
    Ok((done, elapsed))
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(3.0);
    let folder = tempfile::tempdir().map_err(|e| Error::retryable(e.to_string()))?;
    let path = folder.path().join("counter.py");
    std::fs::write(&path, PROGRAM).map_err(|e| Error::retryable(e.to_string()))?;
    let clock = SystemClock::new();
    let call = "<tool_call>{\"name\": \"add\", \"arguments\": {\"n\": 1}}</tool_call>";
    println!("{:<22} {:>9} {:>12} {:>16}", "turn", "episodes", "steps/s", "steps/s per core");
    for (name, turn) in [("a call of a tool", call), ("words (step)", "hello")] {
        for together in [1, 64, 512] {
            let options = json!({"kind": "process", "command": ["python3", path], "max_turns": TURNS});
            let before = processor_time();
            let (done, elapsed) = {
                let environment = environments::family().build(&options, &ToolHost::new(1))?;
                steps(&*environment, &clock, together, turn, seconds)?
            };
            // The program has ended, so its time is included in that of the children.
            let processor_seconds = processor_time() - before;
            println!(
                "{name:<22} {together:>9} {:>12.0} {:>16.0}",
                done as f64 / elapsed,
                done as f64 / processor_seconds
            );
        }
    }
    Ok(())
}

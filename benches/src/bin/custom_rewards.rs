//! Rewards per second of a Python function through `trainyard_bridge`, requested as by `rl`: all groups of a step
//! together.
//!
//! Episodes have six messages of about 600 bytes together. Run with `cargo run --release -p trainyard-benches --bin
//! custom_rewards [workers] [seconds]`; it needs `python3`.

use serde_json::json;
use trainyard_benches::quantile;
use trainyard_core::{Clock, Result, SystemClock};
use trainyard_envs::rewards::weighted::score_groups;
use trainyard_envs::rewards::{GroupView, RewardContext, RewardList, ScoringGroup, family};
use trainyard_tables::{Message, Problem, Trajectory};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROGRAM: &str = "import trainyard_bridge as ty\n\n@ty.reward\ndef short(episode):\n    \
    return float(episode.correct) - 0.001 * len(episode.text) - 0.01 * episode.tool_calls\n\nty.run()\n";
const GROUPS: usize = 256;
const MEMBERS: usize = 16;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let workers: usize = arguments.next().and_then(|word| word.parse().ok()).unwrap_or(2);
    let seconds: f64 = arguments.next().and_then(|word| word.parse().ok()).unwrap_or(5.0);
    let folder = tempfile::tempdir().map_err(trainyard_core::Error::data)?;
    let program = folder.path().join("my_reward.py");
    std::fs::write(&program, PROGRAM).map_err(|e| trainyard_core::error::io_error(&program, &e))?;
    let mut options = json!([{"kind": "process", "command": ["python3", program], "workers": workers}]);
    let mut rewards = RewardList::read(&family(), &mut options).build()?;
    rewards.iter_mut().try_for_each(|one| one.reward.open(&RewardContext::detached()))?;
    let words = "twelve and seven is nineteen; ".repeat(3);
    let turn = |at: usize| Message::new(["user", "assistant", "tool"][at % 3], words.clone());
    let row = |sample: usize| Trajectory {
        id: format!("rl/0/p/{sample}"),
        messages: (0..6).map(turn).collect(),
        answer: Some("19".to_string()),
        tool_calls: 2,
        turns: 2,
        ..Trajectory::default()
    };
    let problem = Problem { id: "p".to_string(), answer: "19".to_string(), level: 1, ..Problem::default() };
    let rows: Vec<Trajectory> = (0..MEMBERS).map(row).collect();
    let members: Vec<&Trajectory> = rows.iter().collect();
    let group = GroupView { step: 0, steps: 1, members: &members, correct: &[true; MEMBERS], earlier: &[] };
    let scenes = vec![ScoringGroup { problem: &problem, group }; GROUPS];
    score_groups(&mut rewards, &scenes[..1])?;
    let clock = SystemClock::new();
    let (start, mut rates) = (clock.monotonic(), Vec::new());
    while (clock.monotonic() - start).as_secs_f64() < seconds {
        let before = clock.monotonic();
        score_groups(&mut rewards, &scenes)?;
        rates.push((GROUPS * MEMBERS) as f64 / (clock.monotonic() - before).as_secs_f64());
    }
    let median = quantile(&mut rates, 0.5);
    println!("{median:.0} rewards per second with {workers} workers (median of {} steps)", rates.len());
    Ok(())
}

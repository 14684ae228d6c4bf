//! Calls per second through the tool protocol: one-line programs in open sessions, one worker.
//!
//! `cargo run --release -p trainyard-envs --example tool_throughput [WORKER] [CALLS]`; WORKER is a program that serves
//! `tool-worker`, by default the worker binary beside this example's folder.

use std::time::Duration;
use trainyard_core::{Clock, SystemClock};
use trainyard_envs::tools::{ToolHost, ToolLimits};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let beside = || std::env::current_exe().ok()?.parent()?.parent()?.join("trainyard-tool-worker").to_str().map(str::to_string);
    let Some(worker) = arguments.next().or_else(beside) else { return eprintln!("no worker program given") };
    let calls: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let clock = SystemClock::new();
    for sessions in [1, 8, 64] {
        let host = ToolHost::with_program(1, &worker);
        let Ok(open) = (0..sessions).map(|_| host.open(&ToolLimits::default())).collect::<Result<Vec<_>, _>>() else {
            return eprintln!("no session can be opened");
        };
        for session in &open {
            session.submit("x=1").wait(Duration::from_secs(10));
        }
        let start = clock.monotonic();
        let mut done = 0;
        while done < calls {
            // A wave of calls, as a batch of decoding sequences makes them.
            let wave: Vec<_> = (0..512).map(|i| open[i % sessions].submit("x=x*3%1009+7")).collect();
            let errors = wave.iter().filter(|t| t.wait(Duration::from_secs(10)).is_none_or(|r| r.error)).count();
            assert_eq!(errors, 0, "calls failed");
            done += wave.len();
        }
        let seconds = (clock.monotonic() - start).as_secs_f64();
        println!("{sessions} sessions: {done} calls, {:.0} per second", done as f64 / seconds);
    }
}

//! The Python tool through the worker protocol with one worker: calls per second in open sessions, fresh sessions per
//! second, and the cost of a fork (copying a session, from its snapshot and later calls, until its first answer).
//!
//! Calls are submitted in waves, as a batch of decoding sequences makes them. "Per core" divides by the processor time
//! of the worker, or of the worker and this process, which writes, reads and waits. Run with `cargo run --release -p
//! trainyard-benches --bin tools [seconds per figure]`. The worker is this program itself or the one named by
//! TRAINYARD_TOOL_WORKER.

use std::sync::Arc;
use std::time::Duration;
use trainyard_benches::quantile;
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_envs::tools::host::ProgramSession;
use trainyard_envs::tools::{PendingToolResult, ToolHost, ToolLimits, worker};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PATIENCE: Duration = Duration::from_secs(10);
/// Largest number of calls in flight.
const WAVE: usize = 512;
/// Calls of one session before it is replaced: its state holds the text of all its calls, so an endless session would
/// slow down.
const CALLS: usize = 50;
const FIRST: &str = "x=1";
/// Programs by name: a call of a few microseconds, and one of about a hundred. A session is rebuilt by replaying its
/// calls until that would take longer than reading a snapshot; after 50 calls the first program is still replayed, the
/// second not.
const PROGRAMS: [(&str, &str); 2] =
    [("x=x*3%1009+7", "x=x*3%1009+7"), ("a loop of 1,000", "x=sum(i*i for i in range(1000))%1009")];

fn result(pending: &PendingToolResult) -> Result<String> {
    match pending.wait(PATIENCE) {
        Some(result) if !result.error => Ok(result.text),
        Some(result) => Err(Error::data(format!("a call failed: {}", result.text))),
        None => Err(Error::lost("the worker does not respond")),
    }
}

fn run(session: &ProgramSession, code: &str) -> Result<String> {
    result(&session.submit(code))
}

/// Returns the processor time of a living process over all threads, in seconds; 0 if the system does not report it.
fn processor_time(process: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may contain anything; user and system ticks are the 12th and 13th word after it.
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| words.get(i).and_then(|w| w.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns the processor time of (the workers, this process).
fn processor_times(host: &ToolHost) -> (f64, f64) {
    (host.worker_ids().iter().map(|id| processor_time(&id.to_string())).sum(), processor_time("self"))
}

/// Measures calls per second in `sessions` concurrent sessions, including their opening, once per `CALLS` calls.
fn calls(clock: &dyn Clock, sessions: usize, (name, code): (&str, &str), seconds: f64) -> Result<()> {
    let host = ToolHost::new(1);
    let open = |host: &Arc<ToolHost>| -> Result<Vec<ProgramSession>> {
        (0..sessions).map(|_| host.open(&ToolLimits::default())).collect()
    };
    run(&open(&host)?[0], FIRST)?;
    let (start, (worker, own)) = (clock.monotonic(), processor_times(&host));
    let mut done = 0;
    let mut elapsed = 0.0;
    while elapsed < seconds {
        let sessions = open(&host)?;
        let mut waiting: Vec<PendingToolResult> = sessions.iter().map(|s| s.submit(FIRST)).collect();
        for _ in 1..CALLS {
            for session in &sessions {
                if waiting.len() == WAVE {
                    waiting.drain(..).try_for_each(|t| result(&t).map(drop))?;
                }
                waiting.push(session.submit(code));
            }
        }
        waiting.drain(..).try_for_each(|t| result(&t).map(drop))?;
        done += sessions.len() * CALLS;
        elapsed = (clock.monotonic() - start).as_secs_f64();
    }
    let (worker_after, own_after) = processor_times(&host);
    let (worker, own) = (worker_after - worker, own_after - own);
    println!(
        "{sessions} sessions, {name}: {:.0} calls/s; per core {:.0} of the worker, {:.0} of both processes \
         ({done} calls)",
        done as f64 / elapsed,
        done as f64 / worker,
        done as f64 / (worker + own)
    );
    Ok(())
}

/// Measures sessions that are opened, called once and closed, in waves.
fn fresh(clock: &dyn Clock, seconds: f64) -> Result<()> {
    let host = ToolHost::new(1);
    run(&host.open(&ToolLimits::default())?, FIRST)?;
    let (start, mut done, mut elapsed) = (clock.monotonic(), 0, 0.0);
    while elapsed < seconds {
        let open = (0..WAVE).map(|_| host.open(&ToolLimits::default())).collect::<Result<Vec<_>>>()?;
        let waiting: Vec<PendingToolResult> = open.iter().map(|s| s.submit(FIRST)).collect();
        waiting.iter().try_for_each(|t| result(t).map(drop))?;
        done += open.len();
        elapsed = (clock.monotonic() - start).as_secs_f64();
    }
    let mut alone = Vec::new();
    for _ in 0..500 {
        let start = clock.monotonic();
        run(&host.open(&ToolLimits::default())?, FIRST)?;
        alone.push((clock.monotonic() - start).as_secs_f64());
    }
    println!(
        "fresh sessions with one call each: {:.0}/s in waves of {WAVE}; one alone {:.0} µs (p50), {:.0} µs (p95)",
        done as f64 / elapsed,
        quantile(&mut alone, 0.5) * 1e6,
        quantile(&mut alone, 0.95) * 1e6
    );
    Ok(())
}

/// Measures the time from a fork to the copy's first response, compared with a call in an open session.
fn forks(clock: &dyn Clock, calls: usize, (name, code): (&str, &str)) -> Result<()> {
    let host = ToolHost::new(1);
    let parent = host.open(&ToolLimits::default())?;
    run(&parent, FIRST)?;
    let mut last = String::new();
    for _ in 0..calls {
        last = run(&parent, &format!("{code}\nx"))?;
    }
    let neighbor = host.open(&ToolLimits::default())?;
    run(&neighbor, FIRST)?;
    let (mut forked, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let start = clock.monotonic();
        let copy = parent.fork();
        let output = run(&copy, "x")?;
        let middle = clock.monotonic();
        run(&neighbor, FIRST)?;
        let end = clock.monotonic();
        if output != last {
            return Err(Error::bug(format!("a fork returned {output}, its parent {last}")));
        }
        forked.push((middle - start).as_secs_f64());
        plain.push((end - middle).as_secs_f64());
    }
    println!(
        "fork after {calls} calls of {name}: {:.0} µs (p50), {:.0} µs (p95) to its first response; a call in an open \
         session {:.0} µs",
        quantile(&mut forked, 0.5) * 1e6,
        quantile(&mut forked, 0.95) * 1e6,
        quantile(&mut plain, 0.5) * 1e6
    );
    Ok(())
}

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("tool-worker") {
        std::process::exit(worker::main());
    }
    let seconds = argument.and_then(|s| s.parse().ok()).unwrap_or(3.0);
    let clock = SystemClock::new();
    for program in PROGRAMS {
        for sessions in [1, 8, 64] {
            calls(&clock, sessions, program, seconds)?;
        }
    }
    fresh(&clock, seconds)?;
    for program in PROGRAMS {
        for calls in [1, 10, 50] {
            forks(&clock, calls, program)?;
        }
    }
    Ok(())
}

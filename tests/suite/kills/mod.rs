//! Real kills: engine, attempts and S3 server end by SIGKILL at random moments, the same command is repeated until the
//! run ends, and the result equals that of an undisturbed run.
//!
//! `TRAINYARD_KILLS` is the number of rounds (10 in a folder, 3 in a bucket), `TRAINYARD_KILLS_SEED` the seed of the
//! first one (1). The rounds on a bucket need `TRAINYARD_TEST_WEED`, the path of SeaweedFS's program, because they
//! start and kill a separate server. `benches/kills.sh` fetches it and runs both for long. A seed repeats the same
//! victims and pauses; their effects depend on the machine.

mod judged;
mod processes;
mod scene;
mod server;

use crate::kit::{Sandbox, skipped};
use judged::Published;
use processes::Marked;
use scene::{Place, Scene};
use server::Server;
use std::io::Write as _;
use std::path::Path;
use trainyard_core::{Clock as _, SystemClock};

/// Statistics of all rounds of a test.
#[derive(Default)]
struct Tally {
    engines: u32,
    attempts: u32,
    servers: u32,
    resumes: u32,
    /// Differences, one line each, with the seed.
    differing: Vec<String>,
    leftovers: Vec<String>,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Prints to the terminal directly, since the harness captures the output of tests that pass.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs rounds in one kind of place. Every other one has attempts that outlive their engine.
fn rounds(what: &str, mut server: Option<Server>) {
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    let expected = undisturbed();
    let usual = if server.is_some() { 3 } else { 10 };
    let (count, first) = (number("TRAINYARD_KILLS", usual), number("TRAINYARD_KILLS_SEED", 1));
    let mut tally = Tally::default();
    for seed in first..first + count {
        round(seed, server.as_mut(), &expected, &mut tally);
        if (seed - first + 1) % 20 == 0 {
            say(&format!("kills: {what}: {} of {count} rounds, {}", seed - first + 1, tally.kills()));
        }
    }
    let Tally { differing, leftovers, .. } = &tally;
    say(&format!(
        "kills: {what}: {count} rounds from seed {first}, {}, {} differing, {} leftovers, {:.0} s",
        tally.kills(),
        differing.len(),
        leftovers.len(),
        (clock.monotonic() - begin).as_secs_f64()
    ));
    assert!(differing.is_empty() && leftovers.is_empty(), "{differing:#?}\n{leftovers:#?}");
    assert!(tally.engines > 0 && tally.resumes > 0, "nothing was killed");
}

impl Tally {
    fn kills(&self) -> String {
        let Self { engines, attempts, servers, resumes, .. } = self;
        format!("killed {engines} engines, {attempts} attempts, {servers} servers; {resumes} resumes")
    }
}

/// Returns the result of an undisturbed run.
fn undisturbed() -> Published {
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox, 0, None);
    crate::kit::ran(place.command(&["run", scene::WORKFLOW]).output().unwrap()).code(0);
    let published = Published::of(&place, None);
    assert_eq!(published.manifests.len(), 16, "{published:?}");
    published
}

fn round(seed: u64, mut server: Option<&mut Server>, expected: &Published, tally: &mut Tally) {
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox, seed, server.as_deref());
    Scene::new(&place, seed, server.as_deref_mut(), tally).play();
    let found = Published::of(&place, server.as_deref());
    let wrong = found.differences(expected);
    let left = judged::leftovers(&place);
    if !wrong.is_empty() || !left.is_empty() {
        say(&format!("seed {seed} left what is wrong in {}", sandbox.path("").display()));
        std::mem::forget(sandbox);
    }
    tally.differing.extend(wrong.into_iter().map(|text| format!("seed {seed}: {text}")));
    tally.leftovers.extend(left.into_iter().map(|text| format!("seed {seed}: {text}")));
}

#[test]
fn killed_runs_in_a_folder_end_like_undisturbed_ones() {
    rounds("folder", None);
}

#[test]
fn killed_runs_in_a_bucket_end_like_undisturbed_ones() {
    let Some(program) = std::env::var_os("TRAINYARD_TEST_WEED") else {
        return skipped("TRAINYARD_TEST_WEED names no S3 server to kill");
    };
    rounds("bucket", Some(Server::new(Path::new(&program))));
}

/// The rounds rely on this search: if it found no process, leftovers would go unnoticed.
#[test]
fn a_process_of_a_sandbox_is_found_and_killed() {
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox, 0, None);
    let marked = Marked::new(&place.home());
    let mut sleeper =
        std::process::Command::new("sleep").arg("600").env("TRAINYARD_HOME", place.home()).spawn().unwrap();
    crate::kit::wait_for("the process", 10, || marked.all() == [sleeper.id()]);
    assert!(marked.attempts().is_empty());
    processes::kill(&marked.all());
    assert!(!sleeper.wait().unwrap().success());
    assert!(marked.all().is_empty());
}

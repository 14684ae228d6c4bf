//! Tests random plans, orders, faults, and a crash after any journal write: the invariants hold after every step, the
//! same artifacts are published as in a run without faults, and no stage is published twice.

use super::simulation::Simulation;
use super::{Build, node, plan, setup};
use crate::fold::RunView;
use crate::{Command, EngineSetup, Input, ResumeState};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::event::{AttemptOutcome, Event, EventRecord};
use trainyard_core::{Chance, Digest, Error};
use trainyard_spec::plan::{CacheMode, Plan, PlanNode, ResourceRequest};

fn random_plan(d: &mut PhiloxRng) -> Plan {
    let count = 2 + d.below(9) as usize;
    let mut nodes = Vec::new();
    for at in 0..count {
        let mut one = node(&format!("s{at}"));
        let upstream: Vec<String> = (0..at).filter(|_| d.below(3) == 0).map(|i| format!("s{i}")).collect();
        let names: Vec<&str> = upstream.iter().map(String::as_str).collect();
        one = if d.below(2) == 0 { one.reads(&names) } else { one.needs(&names) };
        one.resources = vec![ResourceRequest { cpus: Some(1 + d.below(2) as u32), ..ResourceRequest::default() }];
        match d.below(10) {
            0 => one.cache = CacheMode::Disabled,
            1 => one = one.check("accuracy", 0.9),
            2 if at > 0 => one = one.needs(&["s0"]).when("stages.s0.metrics.accuracy > 0.7"),
            // A twin: the digest of an earlier stage, if the inputs agree.
            3 if at > 0 => one.config = nodes.first().map_or(one.config.clone(), |n: &PlanNode| n.config.clone()),
            _ => {}
        }
        // A companion server, which needs free resources.
        let server = (d.below(4) == 0 && one.resources[0].cpus == Some(1)).then(|| {
            let server = node(&format!("c{at}"));
            let (after, beside) = (one.after.clone(), Some(one.key.clone()));
            let resources = vec![ResourceRequest { cpus: Some(1), ..ResourceRequest::default() }];
            PlanNode { after, beside, resources, outputs: BTreeMap::new(), ..server }
        });
        nodes.push(one);
        nodes.extend(server);
    }
    plan(nodes)
}

/// Returns faults by stage digest and attempt, so that they are the same in every order. A stage that gets lost
/// succeeds the next time.
fn faults(seed: u64) -> impl Fn(&AttemptSpec) -> Result<BTreeMap<String, f64>, (AttemptOutcome, Error)> + Clone {
    move |spec| {
        // Whether a companion fails before its lead has ended depends on the order.
        if spec.stage.0.starts_with('c') {
            return Ok(BTreeMap::new());
        }
        let mut name = [0u8; 8];
        name.copy_from_slice(&spec.stage_digest.as_str().as_bytes()[..8]);
        let mut d = Chance::new(seed).at("fault", &[u64::from_le_bytes(name)]);
        match d.below(8) {
            0 => Err((AttemptOutcome::Failed, Error::invalid("always wrong"))),
            1 if d.below(3) > 0 && spec.attempt % 2 == 1 => {
                let error = Error::lost("gone");
                Err((AttemptOutcome::Lost, if d.below(2) == 0 { error.by_preemption() } else { error }))
            }
            _ => Ok(BTreeMap::from([("accuracy".to_string(), d.uniform())])),
        }
    }
}

fn run_randomly(sim: &mut Simulation, d: &mut PhiloxRng) {
    if sim.journal.is_empty()
        || matches!(sim.journal.last(), Some(EventRecord { event: Event::WriterOpened { .. }, .. }))
    {
        sim.feed(Input::Begin);
    }
    while !sim.engine.is_finished() {
        random_step(sim, d);
    }
}

fn random_step(sim: &mut Simulation, d: &mut PhiloxRng) {
    // Sometimes an earlier input arrives again.
    if d.below(6) == 0 && sim.seen.len() > 1 {
        let old = sim.seen[1 + d.below(sim.seen.len() as u64 - 1) as usize].clone();
        if matches!(old, Input::Ended { .. } | Input::Published { .. } | Input::Tick | Input::Recovered { .. }) {
            sim.feed(old);
        }
    } else if !sim.pending.is_empty() {
        let at = d.below(sim.pending.len() as u64) as usize;
        sim.carry_out(at);
    } else if let Some(wake) = sim.engine.next_wake() {
        sim.now = sim.now.max(wake);
        sim.feed(Input::Tick);
    } else {
        assert!(sim.engine.is_finished(), "stuck: {:?}", sim.view().counts());
    }
}

/// Returns the digest, number of generations, and content of each output.
fn published(sim: &Simulation) -> BTreeSet<(Digest, u32, Vec<Digest>)> {
    sim.store
        .values()
        .map(|m| (m.stage_digest.clone(), m.generation, m.outputs.values().map(|o| o.digest.clone()).collect()))
        .collect()
}

fn resumed_setup(journal: &[EventRecord]) -> EngineSetup {
    let mut view = RunView::default();
    journal.iter().for_each(|r| view.apply(r));
    EngineSetup { resumed: ResumeState::from_view(&view), ..setup() }
}

/// Simulates a crash of the engine: some commands in progress take effect, but no response arrives. A new engine takes
/// over.
fn crash(sim: Simulation, plan: &Plan, seed: u64, d: &mut PhiloxRng) -> Simulation {
    let mut dying = sim;
    for command in std::mem::take(&mut dying.pending) {
        if matches!(command, Command::Publish { .. } | Command::Launch { .. }) && d.below(2) == 0 {
            let _ = dying.effect(command);
        }
    }
    let mut journal = dying.journal;
    journal.push(EventRecord { at: dying.now, event: Event::WriterOpened { epoch: 2, writer: "next".into() } });
    let mut next = Simulation::new(plan, resumed_setup(&journal)).with(faults(seed));
    next.store = dying.store;
    next.results = dying.results;
    next.journal = journal;
    next.now = dying.now;
    next
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_order_ends_in_the_same_artifacts(seed in any::<u64>()) {
        let chance = Chance::new(seed);
        let plan = random_plan(&mut chance.at("plan", &[]));
        let mut orders = (0..3).map(|order| {
            let mut sim = Simulation::new(&plan, setup()).with(faults(seed));
            run_randomly(&mut sim, &mut chance.at("order", &[order]));
            (published(&sim), sim.outcome())
        });
        let first = orders.next();
        for other in orders {
            prop_assert_eq!(first.as_ref(), Some(&other));
        }
    }

    #[test]
    fn crash_after_any_journal_write_is_recovered(seed in any::<u64>()) {
        let chance = Chance::new(seed);
        let plan = random_plan(&mut chance.at("plan", &[]));
        let mut quiet = Simulation::new(&plan, setup()).with(faults(seed));
        run_randomly(&mut quiet, &mut chance.at("order", &[0]));
        let writes = quiet.journal.len();
        for crash_at in 0..writes {
            let mut d = chance.at("crash", &[crash_at as u64]);
            let mut sim = Simulation::new(&plan, setup()).with(faults(seed));
            sim.feed(Input::Begin);
            while sim.journal.len() < crash_at && !sim.engine.is_finished() {
                random_step(&mut sim, &mut d);
            }
            if sim.engine.is_finished() {
                continue;
            }
            let mut sim = crash(sim, &plan, seed, &mut d);
            run_randomly(&mut sim, &mut d);
            prop_assert_eq!(published(&sim), published(&quiet), "crash after {} of {} records", crash_at, writes);
        }
    }

    #[test]
    fn a_cancel_at_any_time_ends_the_run_and_leaves_no_attempt(seed in any::<u64>(), steps in 0usize..40) {
        let chance = Chance::new(seed);
        let plan = random_plan(&mut chance.at("plan", &[]));
        let mut d = chance.at("order", &[]);
        let mut sim = Simulation::new(&plan, setup()).with(faults(seed));
        sim.feed(Input::Begin);
        for _ in 0..steps {
            if !sim.engine.is_finished() {
                random_step(&mut sim, &mut d);
            }
        }
        let launched = sim.launched.len();
        if !sim.engine.is_finished() {
            sim.feed(Input::Cancel { why: "test".into() });
            run_randomly(&mut sim, &mut d);
            prop_assert_eq!(sim.launched.len(), launched, "nothing starts after a cancel");
        }
        let view = sim.view();
        prop_assert!(view.stages.iter().all(|s| s.attempts.iter().all(|a| a.outcome.is_some())));
    }
}

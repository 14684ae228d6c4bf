//! Tests where the next attempt runs after one that its pool lost, ended at its timeout or gave no machine.

use super::simulation::{Script, Simulation};
use super::{key, node, plan, setup};
use crate::{Command, EngineSetup, Input, MachinePool, PoolMachine};
use std::collections::BTreeMap;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};
use trainyard_core::{AttemptNumber, Error};
use trainyard_spec::plan::{PlanNode, ResourceRequest};

fn pool(name: &str, tag: &str, cpus: u32) -> MachinePool {
    MachinePool {
        name: name.into(),
        tags: vec![tag.into()],
        machines: vec![PoolMachine { name: "m".into(), cpus, memory: 0, gpus: Vec::new() }],
        ..MachinePool::of_this_machine(cpus, 0, Vec::new())
    }
}

fn tagged(tag: &str) -> ResourceRequest {
    ResourceRequest { tags: vec![tag.into()], ..ResourceRequest::default() }
}

/// Returns a stage that may run on `spot` or, if not there, on `own`.
fn either(name: &str) -> PlanNode {
    PlanNode { resources: vec![tagged("spot"), tagged("own")], ..node(name) }
}

fn pools() -> Vec<MachinePool> {
    vec![pool("spot-1", "spot", 4), pool("spot-2", "spot", 4), pool("mine", "own", 4)]
}

fn lost() -> (AttemptOutcome, Error) {
    (AttemptOutcome::Lost, Error::lost("its machine is gone"))
}

fn started(sim: &Simulation, stage: &str) -> Vec<String> {
    let pool = |event: &Event| match event {
        Event::AttemptStarted { stage: of, pool, .. } if *of == key(stage) => Some(pool.clone()),
        _ => None,
    };
    sim.journal.iter().filter_map(|record| pool(&record.event)).collect()
}

/// Runs a plan with these pools, and returns the simulation.
fn ran(nodes: Vec<PlanNode>, pools: Vec<MachinePool>, script: Script) -> (Simulation, RunOutcome) {
    let mut sim = Simulation::new(&plan(nodes), EngineSetup { pools, ..setup() });
    sim.script = script;
    let outcome = sim.finish();
    (sim, outcome)
}

/// Ends the first attempts with these failures, in turn.
fn failing(ends: Vec<(AttemptOutcome, Error)>) -> Script {
    Box::new(move |spec: &AttemptSpec| match ends.get(spec.attempt as usize - 1) {
        Some(end) => Err(end.clone()),
        None => Ok(BTreeMap::new()),
    })
}

#[test]
fn lost_and_late_attempts_go_on_elsewhere() {
    let timed_out = (AttemptOutcome::TimedOut, Error::retryable("no machine accepted the attempt within 8.0s"));
    let (sim, outcome) = ran(vec![either("a")], pools(), failing(vec![timed_out, lost()]));
    assert_eq!(outcome, RunOutcome::Succeeded);
    assert_eq!(started(&sim, "a"), ["spot-1", "spot-2", "mine"]);
}

#[test]
fn placements_are_tried_in_turn() {
    let patient = PlanNode { retry: trainyard_spec::plan::Retry { attempts: 9, ..either("a").retry }, ..either("a") };
    let (sim, _) = ran(vec![patient], pools(), failing((0..6).map(|_| lost()).collect()));
    assert_eq!(started(&sim, "a"), ["spot-1", "spot-2", "mine", "spot-1", "spot-2", "mine", "spot-1"]);
}

#[test]
fn failure_of_the_stage_itself_stays_where_it_is() {
    let faults = vec![(AttemptOutcome::Failed, Error::retryable("the model server is away")); 2];
    let (sim, outcome) = ran(vec![either("a")], pools(), failing(faults));
    assert_eq!(
        (outcome, started(&sim, "a").as_slice()),
        (RunOutcome::Succeeded, ["spot-1"; 3].map(String::from).as_slice())
    );
}

#[test]
fn only_pool_is_tried_again() {
    let (sim, outcome) = ran(vec![either("a")], vec![pool("spot-1", "spot", 4)], failing(vec![lost(), lost()]));
    assert_eq!((outcome, started(&sim, "a").len()), (RunOutcome::Succeeded, 3));
}

#[test]
fn other_stages_keep_their_order() {
    let script = |spec: &AttemptSpec| {
        if spec.stage == key("a") && spec.attempt == 1 { Err(lost()) } else { Ok(BTreeMap::new()) }
    };
    let after = PlanNode { after: vec![key("a")], ..either("b") };
    let (sim, _) = ran(vec![either("a"), after], pools(), Box::new(script));
    assert_eq!(
        (started(&sim, "a"), started(&sim, "b")),
        (vec!["spot-1".into(), "spot-2".into()], vec!["spot-1".into()])
    );
}

/// Only the member whose pool failed moves; each attempt of a group starts all of them together.
#[test]
fn member_of_a_group_moves_alone() {
    let companion = PlanNode { beside: Some(key("a")), ..either("b") };
    let script = |spec: &AttemptSpec| {
        // The lead lives until it is stopped or the companion served it.
        let is_lost = spec.stage == key("b") && spec.attempt == 1;
        if is_lost { Err(lost()) } else { Ok(BTreeMap::new()) }
    };
    let mut sim = Simulation::new(
        &plan(vec![PlanNode { resources: vec![tagged("own")], ..node("a") }, companion]),
        EngineSetup { pools: pools(), ..setup() },
    );
    sim.script = Box::new(script);
    sim.feed(Input::Begin);
    while !sim.engine.is_finished() {
        // The companion's end comes before that of the lead.
        let launched = |command: &Command, stage: &str, attempt: AttemptNumber| match command {
            Command::Launch { spec, .. } => spec.stage == key(stage) && spec.attempt == attempt,
            _ => false,
        };
        let at = sim.pending.iter().position(|command| launched(command, "b", 1)).unwrap_or(0);
        if sim.pending.is_empty() {
            sim.now = sim.engine.next_wake().expect("a retry");
            sim.feed(Input::Tick);
        } else {
            sim.carry_out(at);
        }
    }
    assert_eq!(
        (started(&sim, "a"), started(&sim, "b")),
        (vec!["mine".to_string(); 2], vec!["spot-1".into(), "spot-2".into()])
    );
}

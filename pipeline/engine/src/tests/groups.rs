//! Tests groups: companions start with their lead, all or none, end with it, and are retried with it.

use super::simulation::Simulation;
use super::{Build, key, node, plan, setup};
use crate::fold::StageStatus::{Blocked, Cancelled, Done, Hit, Skipped};
use crate::forecast::{ForecastDecision, ForecastResponse, forecast};
use crate::{AttemptCompletion, Command, Input, LookupResult, NodeId, RunEngine};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};
use trainyard_core::peers::AttemptPeer;
use trainyard_spec::plan::{PlanNode, ResourceRequest};
use trainyard_spec::template::Template;

const TRAIN: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);

fn beside(name: &str, lead: &str) -> PlanNode {
    PlanNode { beside: Some(key(lead)), outputs: BTreeMap::new(), ..node(name) }
}
fn cpus(node: PlanNode, cpus: u32) -> PlanNode {
    PlanNode { resources: vec![ResourceRequest { cpus: Some(cpus), ..ResourceRequest::default() }], ..node }
}
fn group() -> Vec<PlanNode> {
    vec![node("train"), beside("server", "train")]
}
fn begun(nodes: Vec<PlanNode>) -> Simulation {
    let mut sim = Simulation::new(&plan(nodes), setup());
    sim.feed(Input::Begin);
    look_up(&mut sim);
    sim
}
fn look_up(sim: &mut Simulation) {
    while let Some(at) = sim.pending.iter().position(|c| matches!(c, Command::Lookup { .. })) {
        sim.carry_out(at);
    }
}
/// Returns the specs that are being launched.
fn launches(sim: &Simulation) -> Vec<AttemptSpec> {
    let one = |command: &Command| match command {
        Command::Launch { spec, .. } => Some(spec.as_ref().clone()),
        _ => None,
    };
    sim.pending.iter().filter_map(one).collect()
}
/// Ends the attempt of a node with this error.
fn ends(sim: &mut Simulation, node: NodeId, attempt: u32, error: Error) {
    let is_of =
        |c: &Command| matches!(c, Command::Launch { node: n, .. } | Command::Stop { node: n, .. } if *n == node);
    sim.pending.retain(|command| !is_of(command));
    let finished = AttemptCompletion::failed(AttemptOutcome::Failed, error);
    sim.feed(Input::Ended { node, attempt, finished });
}
fn peer(stage: &str, attempt: u32) -> AttemptPeer {
    AttemptPeer { stage: key(stage), attempt, nodes: 1 }
}

#[test]
fn a_group_starts_at_once_and_ends_with_its_lead() {
    let mut sim = begun(group());
    let specs = launches(&sim);
    assert_eq!(specs.len(), 2, "in one step");
    assert!(specs.iter().all(|spec| spec.peers == [peer("train", 1), peer("server", 1)]), "{specs:?}");
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!((sim.status("train"), sim.status("server")), (Done, Done));
    let served = Event::Served { stage: key("server"), beside: key("train") };
    assert!(sim.journal.iter().any(|record| record.event == served));
    let view = sim.view();
    let attempts = &view.stage(&key("server")).unwrap().attempts;
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::Cancelled), "it was stopped, and that is no failure");
    assert_eq!(sim.store.len(), 1, "a stage beside another publishes nothing");
}

#[test]
fn group_is_admitted_as_a_whole() {
    let nodes = vec![cpus(node("train"), 1), cpus(beside("server", "train"), 1), cpus(node("other"), 1)];
    let mut sim = Simulation::new(&plan(nodes), setup());
    sim.feed(Input::Begin);
    // The other stage takes one of two CPUs first.
    let at = sim.pending.iter().position(|c| matches!(c, Command::Lookup { node: NodeId(2), .. })).unwrap();
    sim.carry_out(at);
    look_up(&mut sim);
    assert_eq!(sim.launched, ["other"]);
    let why = sim.engine.explain(&key("train")).unwrap();
    assert_eq!(why, "its 2 stages start together, but not all of them have room now");
    assert_eq!(sim.engine.explain(&key("server")).unwrap(), "starts with train");
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["other", "train", "server"]);
    let large = vec![cpus(node("train"), 2), cpus(beside("server", "train"), 1)];
    let error = RunEngine::new(&plan(large), setup()).err().unwrap();
    assert!(error.message.contains("start together, but the pools are too small for all of them"), "{error}");
}

#[test]
fn failed_member_ends_the_group_and_all_are_retried() {
    let mut sim = begun(group());
    ends(&mut sim, SERVER, 1, Error::retryable("address in use"));
    let stops = |c: &Command| matches!(c, Command::Stop { node: TRAIN, attempt: 1, kill: false });
    assert!(sim.pending.iter().any(stops), "{:?}", sim.pending);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["train", "server", "train", "server"]);
    let view = sim.view();
    let error = view.stage(&key("train")).unwrap().attempts[0].error.clone().unwrap();
    assert!(error.message.contains("`server`, which runs beside it") && error.message.contains("address in use"));
    assert_eq!(view.stage(&key("server")).unwrap().attempts[1].number, 2);
}

#[test]
fn a_group_is_not_tried_again_before_all_of_it_has_ended() {
    let mut sim = begun(group());
    ends(&mut sim, TRAIN, 1, Error::retryable("out of luck"));
    assert!(sim.pending.iter().any(|c| matches!(c, Command::Stop { node: SERVER, .. })), "{:?}", sim.pending);
    sim.now = sim.engine.next_wake().unwrap();
    sim.feed(Input::Tick);
    assert_eq!(sim.launched.len(), 2, "the server has not ended");
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched.len(), 4);
}

#[test]
fn failed_lead_blocks_its_companions() {
    let mut sim = begun(group());
    ends(&mut sim, TRAIN, 1, Error::data("loss is NaN"));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(sim.status("server"), Blocked);
    let mut sim = begun(group());
    sim.feed(Input::Cancel { why: "test".into() });
    assert_eq!(sim.finish(), RunOutcome::Cancelled);
    assert_eq!((sim.status("train"), sim.status("server")), (Cancelled, Cancelled));
}

#[test]
fn successful_companion_does_not_end_the_group() {
    let mut sim = begun(group());
    let at = sim.pending.iter().position(|c| matches!(c, Command::Launch { node: SERVER, .. })).unwrap();
    sim.carry_out(at);
    assert!(!sim.pending.iter().any(|c| matches!(c, Command::Stop { .. })));
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched.len(), 2);
}

#[test]
fn a_hit_starts_nothing_and_another_server_is_a_miss() {
    let mut first = Simulation::new(&plan(group()), setup());
    first.finish();
    let again = |nodes: Vec<PlanNode>| {
        let mut sim = Simulation::new(&plan(nodes), setup());
        sim.store = first.store.clone();
        assert_eq!(sim.finish(), RunOutcome::Succeeded);
        sim
    };
    let hit = again(group());
    assert_eq!((hit.status("train"), hit.status("server"), hit.launched.len()), (Hit, Skipped, 0));
    let mut other = group();
    other[1].config = Template::Literal(serde_json::json!({"name": "another server"}));
    assert_eq!(again(other).launched.len(), 2, "what runs beside a stage decides what it computes");
    assert_eq!(again(vec![node("train")]).launched.len(), 1);
}

#[test]
fn group_members_share_dependencies() {
    let model = || node("model");
    let nodes = vec![model(), node("train").needs(&["model"]), beside("server", "train").reads(&["model"])];
    let mut sim = Simulation::new(&plan(nodes), setup());
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["model", "train", "server"]);
    let mut broken = vec![model(), node("train").needs(&["model"]), beside("server", "train").reads(&["model"])];
    broken[2].config =
        Template::Expression(trainyard_spec::expression::Expression::parse("stages.model.metrics.x").unwrap());
    let mut sim = Simulation::new(&plan(broken), setup());
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!((sim.status("train"), sim.launched.len()), (Blocked, 1), "a group without its server does not start");
}

#[test]
fn next_engine_recovers_the_whole_group() {
    let plan = plan(group());
    let mut sim = begun(group());
    sim.feed(Input::Submitted { node: SERVER, attempt: 1, handle: "7".into() });
    let mut next = sim.next_engine(&plan);
    look_up(&mut next);
    let recovers = |node| move |c: &Command| matches!(c, Command::Recover { node: n, .. } if *n == node);
    assert!(next.pending.iter().any(recovers(TRAIN)) && next.pending.iter().any(recovers(SERVER)));
    // The lead's attempt has left no trace: its server is stopped, and both begin again.
    next.feed(Input::Recovered { node: TRAIN, attempt: 1, finished: None });
    assert!(next.launched.is_empty(), "the server is still there");
    next.pending.retain(|c| !recovers(TRAIN)(c));
    assert_eq!(next.finish(), RunOutcome::Succeeded);
    assert_eq!(next.launched, ["train", "server"]);
}

#[test]
fn companion_of_an_ended_lead_is_stopped_on_recovery() {
    let plan = plan(group());
    let mut sim = begun(group());
    ends(&mut sim, TRAIN, 1, Error::retryable("out of luck"));
    let mut next = sim.next_engine(&plan);
    let at = next.pending.iter().position(|c| matches!(c, Command::Lookup { node: TRAIN, .. })).unwrap();
    let found = next.pending.remove(at);
    let input = next.effect(found).unwrap();
    let commands = next.engine.step(next.now, input).commands;
    let both = |c: &[Command]| matches!(c, [Command::Recover { node: SERVER, .. }, Command::Stop { node: SERVER, .. }]);
    assert!(both(&commands), "{commands:?}");
    next.feed(Input::Recovered { node: SERVER, attempt: 1, finished: None });
    assert_eq!(next.launched, ["train", "server"]);
}

#[test]
fn a_forecast_shows_the_whole_group() {
    let plan = plan(group());
    let forecasts = forecast(&plan, setup(), |queries| {
        Ok(queries.iter().map(|_| ForecastResponse::Lookup(Ok(LookupResult::Miss))).collect())
    });
    let decisions: Vec<ForecastDecision> = forecasts.unwrap().iter().map(|f| f.decision).collect();
    assert_eq!(decisions, [ForecastDecision::Run, ForecastDecision::Run]);
}

#[test]
fn stage_fails_after_its_wait_limit() {
    let short = PlanNode { wait: Some(Duration::from_secs(30)), ..cpus(node("b"), 2) };
    let mut sim = begun(vec![cpus(node("a"), 2), short]);
    assert_eq!(sim.launched, ["a"]);
    for _ in 0..3 {
        sim.now = sim.engine.next_wake().unwrap();
        sim.feed(Input::Tick);
        // The try has ended, and after the backoff the group waits again.
        if let Some(at) = sim.engine.next_wake() {
            sim.now = at;
            sim.feed(Input::Tick);
        }
    }
    assert!(sim.error("b").contains("no machines within 30.0s: pool `local` is busy"), "{}", sim.error("b"));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(sim.launched, ["a"], "it never began");
}

#[test]
fn remaining_wait_is_in_the_spec() {
    let patient = PlanNode { wait: Some(Duration::from_secs(30)), ..node("a") };
    let sim = begun(vec![patient, node("b")]);
    let specs = launches(&sim);
    assert_eq!((specs[0].wait_millis, specs[1].wait_millis), (Some(30_000), None));
    assert!(specs[0].peers.is_empty(), "it runs alone");
}

//! Tests exact cases, one rule each.

use super::simulation::Simulation;
use super::{Build, key, node, plan, setup};
use crate::fold::StageStatus::{Blocked, Cancelled, Done, Failed, Hit, Skipped};
use crate::forecast::{ForecastDecision, ForecastQuery, ForecastResponse, forecast};
use crate::{Command, EngineSetup, Input, LookupResult, RunEngine};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};
use trainyard_core::{Cardinality, Digest, Error, Placement};
use trainyard_spec::expression::Expression;
use trainyard_spec::plan::{CacheMode, CheckSeverity, ResourceRequest, RunCondition, SourceRef};
use trainyard_spec::template::Template;

pub type Metrics = BTreeMap<String, f64>;
pub type Outcome = Result<Metrics, (AttemptOutcome, Error)>;

pub fn metrics(accuracy: f64) -> Outcome {
    Ok(BTreeMap::from([("accuracy".to_string(), accuracy)]))
}
fn retryable() -> Outcome {
    Err((AttemptOutcome::Failed, Error::retryable("net")))
}
fn failing(stage: &'static str, error: Error) -> impl Fn(&AttemptSpec) -> Outcome {
    move |spec| if spec.stage.0 == stage { Err((AttemptOutcome::Failed, error.clone())) } else { metrics(0.5) }
}

#[test]
fn a_chain_runs_in_order_and_again_is_all_hits() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"]), node("c").reads(&["b"])]);
    let mut first = Simulation::new(&plan, setup());
    assert_eq!(first.finish(), RunOutcome::Succeeded);
    assert_eq!(first.launched, ["a", "b", "c"]);
    let mut again = Simulation::new(&plan, setup());
    again.store = first.store.clone();
    assert_eq!(again.finish(), RunOutcome::Succeeded);
    assert!(again.launched.is_empty());
    assert_eq!(again.status("c"), Hit);
    assert_eq!(first.store.len(), 3);
}

#[test]
fn a_rerun_upstream_with_equal_bytes_leaves_downstream_a_hit() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"])]);
    let mut first = Simulation::new(&plan, setup());
    first.finish();
    let mut setup = setup();
    setup.run.0 = "20261121-000000-000001".into();
    setup.selection.rerun = vec!["a".into()];
    let mut again = Simulation::new(&plan, setup);
    again.store = first.store.clone();
    again.finish();
    assert_eq!(again.launched, ["a"]);
    assert_eq!((again.status("a"), again.status("b")), (Done, Hit));
    let generations: Vec<u32> =
        again.store.iter().filter(|(_, m)| m.provenance.stage == key("a")).map(|((_, g), _)| *g).collect();
    assert_eq!(generations, [0, 1]);
}

#[test]
fn uncached_stages_publish_a_new_generation_in_every_run_but_once_in_each() {
    let mut uncached = node("a");
    uncached.cache = CacheMode::Disabled;
    let plan = plan(vec![uncached]);
    let mut first = Simulation::new(&plan, setup());
    first.finish();
    let mut resumed = Simulation::new(&plan, setup());
    resumed.store = first.store.clone();
    resumed.finish();
    assert!(resumed.launched.is_empty(), "the same run published it before");
    let mut next = setup();
    next.run.0 = "20261121-000000-000001".into();
    let mut again = Simulation::new(&plan, next);
    again.store = first.store.clone();
    again.finish();
    assert_eq!(again.launched, ["a"]);
    assert_eq!(again.store.len(), 2);
}

#[test]
fn a_lost_object_gives_a_new_generation_with_that_reason() {
    let plan = plan(vec![node("a")]);
    let mut first = Simulation::new(&plan, setup());
    first.finish();
    let mut again = Simulation::new(&plan, setup());
    again.store = first.store.clone();
    again.feed(Input::Begin);
    let Some(Command::Lookup { node, .. }) = again.pending.pop() else { panic!("no lookup") };
    again.feed(Input::LookedUp { node, answer: Ok(LookupResult::Lost { generation: 0, missing: "file `f`".into() }) });
    assert_eq!(again.finish(), RunOutcome::Succeeded);
    let manifest = again.store.values().find(|m| m.generation == 1).unwrap();
    assert_eq!(manifest.reason, Some(trainyard_core::artifact::GenerationReason::Lost));
}

#[test]
fn failure_blocks_only_dependents() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"]), node("c").needs(&["b"]), node("d")]);
    let mut sim = Simulation::new(&plan, setup()).with(failing("a", Error::invalid("no such option")));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!((sim.status("a"), sim.status("b"), sim.status("c"), sim.status("d")), (Failed, Blocked, Blocked, Done));
    assert_eq!(sim.launched.iter().filter(|s| *s == "a").count(), 1, "an invalid stage is not tried again");
}

#[test]
fn retries_follow_the_kind_and_wait_longer_each_time() {
    let plan = plan(vec![node("a")]);
    let mut sim =
        Simulation::new(&plan, setup()).with(|spec| if spec.attempt < 3 { retryable() } else { metrics(0.5) });
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    let waits: Vec<i64> = sim
        .journal
        .iter()
        .filter_map(
            |r| if let Event::RetryScheduled { not_before, .. } = r.event { Some(not_before - r.at) } else { None },
        )
        .collect();
    assert_eq!(waits, [5_000, 10_000]);
    let mut sim = Simulation::new(&plan, setup()).with(|_| retryable());
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(sim.launched.len(), 3);
}

#[test]
fn timed_out_attempt_is_retried() {
    let plan = plan(vec![node("a")]);
    let timeout = |spec: &AttemptSpec| {
        if spec.attempt == 1 { Err((AttemptOutcome::TimedOut, Error::retryable("6h were up"))) } else { metrics(1.0) }
    };
    let mut sim = Simulation::new(&plan, setup()).with(timeout);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    let view = sim.view();
    assert_eq!(view.stage(&key("a")).unwrap().attempts[0].outcome, Some(AttemptOutcome::TimedOut));
}

#[test]
fn checks_gate_the_run_on_fresh_results_and_on_hits() {
    let strict = plan(vec![node("a").check("accuracy", 0.9), node("b").reads(&["a"])]);
    let mut sim = Simulation::new(&strict, setup());
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!((sim.status("a"), sim.status("b")), (Failed, Blocked));
    assert!(sim.error("a").contains("check failed: accuracy is 0.5, must be at least 0.9"), "{}", sim.error("a"));
    assert_eq!(sim.store.len(), 1, "the manifest stays");
    let mut again = Simulation::new(&strict, setup());
    again.store = sim.store.clone();
    assert_eq!(again.finish(), RunOutcome::Failed);
    assert!(again.launched.is_empty());
    let mut lenient = plan(vec![node("a").check("accuracy", 0.9), node("b").reads(&["a"])]);
    lenient.nodes[0].checks[0].severity = CheckSeverity::Warn;
    let mut again = Simulation::new(&lenient, setup());
    again.store = sim.store.clone();
    assert_eq!(again.finish(), RunOutcome::Succeeded);
    assert_eq!(again.launched, ["b"], "a corrected threshold costs nothing");
}

#[test]
fn late_conditions_skip_and_skips_travel_along_data_only() {
    let nodes = vec![
        node("gate"),
        node("a").needs(&["gate"]).when("stages.gate.metrics.accuracy > 0.7"),
        node("b").reads(&["a"]),
        node("c").needs(&["a"]),
        node("d").reads_as("in", Cardinality::Optional, &["a"]),
    ];
    let mut sim = Simulation::new(&plan(nodes), setup());
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!((sim.status("a"), sim.status("b"), sim.status("c"), sim.status("d")), (Skipped, Skipped, Done, Done));
    let mut never = node("a");
    never.when = RunCondition::Never("`params.rl` is false".into());
    let mut sim = Simulation::new(&plan(vec![never, node("b").reads(&["a"])]), setup());
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!((sim.status("a"), sim.status("b")), (Skipped, Skipped));
}

#[test]
fn a_stage_that_reads_only_the_status_is_not_blocked() {
    let nodes = vec![
        node("a"),
        node("alarm").needs(&["a"]).when("stages.a.status == \"failed\""),
        node("after").needs(&["a"]).when("stages.a.metrics.accuracy > 0.1"),
    ];
    let mut sim = Simulation::new(&plan(nodes), setup()).with(failing("a", Error::data("corrupt")));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!((sim.status("alarm"), sim.status("after")), (Done, Blocked));
}

#[test]
fn late_values_enter_config_and_digest() {
    let mut late = node("b").needs(&["a"]);
    late.config = Template::Map(BTreeMap::from([(
        "threshold".to_string(),
        Template::Expression(Expression::parse("stages.a.metrics.accuracy * 2").unwrap()),
    )]));
    let plan = plan(vec![node("a"), late]);
    let mut sim = Simulation::new(&plan, setup());
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    let manifest = sim.store.values().find(|m| m.provenance.stage == key("b")).unwrap();
    assert_eq!(manifest.config, serde_json::json!({"threshold": 1.0}));
}

#[test]
fn equal_digests_run_once() {
    let mut twin = node("b");
    twin.config = node("a").config;
    let plan = plan(vec![node("a"), twin.check("accuracy", 0.9)]);
    let mut sim = Simulation::new(&plan, setup());
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(sim.launched, ["a"]);
    assert_eq!((sim.status("a"), sim.status("b")), (Done, Failed), "checks are each stage's own");
    let mut sim = Simulation::new(&plan, setup()).with(failing("a", Error::data("x")));
    sim.finish();
    assert_eq!(sim.launched, ["a"]);
    assert!(sim.error("b").starts_with("as in `a`"), "{}", sim.error("b"));
}

#[test]
fn fail_fast_stops_the_rest() {
    let mut fast = setup();
    fast.fail_fast = true;
    let plan = plan(vec![node("a"), node("b"), node("c").reads(&["b"])]);
    let mut sim = Simulation::new(&plan, fast).with(failing("a", Error::data("x")));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!((sim.status("a"), sim.status("b"), sim.status("c")), (Failed, Cancelled, Cancelled));
}

#[test]
fn a_cancelled_run_stops_what_runs_and_starts_nothing() {
    let plan = plan(vec![node("a"), node("b"), node("c"), node("d").reads(&["a"])]);
    let mut sim = Simulation::new(&plan, setup());
    sim.feed(Input::Begin);
    for _ in 0..3 {
        sim.carry_out(0);
    }
    assert_eq!(sim.launched, ["a", "b"]);
    sim.feed(Input::Cancel { why: "Ctrl-C".into() });
    assert_eq!(sim.finish(), RunOutcome::Cancelled);
    assert_eq!(sim.launched, ["a", "b"]);
    assert!(["a", "b", "c", "d"].iter().all(|s| sim.status(s) == Cancelled));
    assert!(sim.store.is_empty());
}

#[test]
fn until_runs_what_is_needed_and_only_runs_one() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"]), node("c").reads(&["b"]), node("d")]);
    let mut until = setup();
    until.selection.until = vec!["b".into()];
    let mut sim = Simulation::new(&plan, until);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["a", "b"]);
    let mut only = setup();
    only.selection.only = vec!["c".into()];
    let mut with = Simulation::new(&plan, only.clone());
    with.store = sim.store.clone();
    assert_eq!(with.finish(), RunOutcome::Succeeded);
    assert_eq!(with.launched, ["c"]);
    let mut without = Simulation::new(&plan, only);
    assert_eq!(without.finish(), RunOutcome::Failed);
    assert!(without.launched.is_empty());
    assert!(without.error("a").contains("leave out `--only`"), "{}", without.error("a"));
    let mut unknown = setup();
    unknown.selection.rerun = vec!["x".into()];
    assert!(RunEngine::new(&plan, unknown).err().unwrap().message.contains("--rerun names `x`"));
}

#[test]
fn an_unplaceable_stage_is_refused_at_once() {
    let mut large = node("a");
    large.resources = vec![ResourceRequest { gpus: 8, ..ResourceRequest::default() }];
    let error = RunEngine::new(&plan(vec![large]), setup()).err().unwrap();
    assert!(
        error.message.contains("w.yaml:1:1: stage `a` can never be placed: pool `local`: needs 8 GPUs; it has 0"),
        "{error}"
    );
}

#[test]
fn waiting_stages_explain_their_reason() {
    let plan = plan(vec![node("a"), node("b"), node("c"), node("d").reads(&["a"])]);
    let mut sim = Simulation::new(&plan, setup());
    sim.feed(Input::Begin);
    for _ in 0..3 {
        sim.carry_out(0);
    }
    assert_eq!(sim.engine.explain(&key("c")).unwrap(), "pool `local` is busy: needs 1 CPU; 0 of 2 are free");
    assert_eq!(sim.engine.explain(&key("d")).unwrap(), "waits for a");
    assert!(sim.view().explain(&key("c"))[1].contains("is busy"), "the journal explains it as well");
}

#[test]
fn kinds_inside_the_process_take_no_slot() {
    let inside = |name: &str| {
        let mut node = node(name);
        node.placement = Placement::InProcess;
        node
    };
    let names: Vec<String> = (0..300).map(|i| format!("n{i}")).collect();
    let mut sim = Simulation::new(&plan(names.iter().map(|n| inside(n)).collect()), setup());
    sim.feed(Input::Begin);
    for _ in &names {
        sim.carry_out(0);
    }
    assert_eq!(sim.launched.len(), 256, "bounded all the same");
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
}

#[test]
fn stale_attempts_change_nothing() {
    let plan = plan(vec![node("a")]);
    let mut sim = Simulation::new(&plan, setup())
        .with(|spec| if spec.attempt == 1 { Err((AttemptOutcome::Lost, Error::lost("gone"))) } else { metrics(0.5) });
    sim.feed(Input::Begin);
    sim.carry_out(0);
    let Some(Command::Launch { spec, node, .. }) = sim.pending.first().cloned() else { panic!("no launch") };
    sim.carry_out(0);
    sim.now += 60_000;
    sim.feed(Input::Tick);
    let before = sim.journal.len();
    let late = sim.result(&spec, BTreeMap::new());
    sim.feed(Input::Ended { node, attempt: 1, finished: crate::AttemptCompletion::succeeded(late) });
    assert_eq!(sim.journal.len(), before);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.store.values().next().unwrap().provenance.attempt, 2);
}

#[test]
fn forecast_equals_the_decisions_of_a_run() {
    let nodes = vec![node("a"), node("b").reads(&["a"]), node("c").reads(&["b"]), node("d")];
    let plan = plan(nodes);
    let mut first = Simulation::new(&plan, setup());
    first.finish();
    let mut store = first.store.clone();
    store.retain(|_, m| m.provenance.stage != key("b"));
    let respond = |queries: Vec<ForecastQuery>| {
        let response = |q: ForecastQuery| match q {
            ForecastQuery::Lookup(d) => ForecastResponse::Lookup(Ok(store
                .get(&(d, 0))
                .map_or(LookupResult::Miss, |m| LookupResult::Hit(Arc::new(m.clone()))))),
            ForecastQuery::Rows { .. } => ForecastResponse::Rows(Ok(Vec::new())),
        };
        Ok(queries.into_iter().map(response).collect())
    };
    let decisions: Vec<(String, ForecastDecision)> =
        forecast(&plan, setup(), respond).unwrap().into_iter().map(|f| (f.stage.0, f.decision)).collect();
    let expected = [
        ("a", ForecastDecision::Hit),
        ("b", ForecastDecision::Run),
        ("c", ForecastDecision::Deferred),
        ("d", ForecastDecision::Hit),
    ];
    assert_eq!(decisions, expected.map(|(s, v)| (s.to_string(), v)));
}

#[test]
fn the_forecast_names_the_stage_that_computes_a_shared_digest() {
    let mut twin = node("b");
    twin.config = node("a").config;
    let miss = |queries: Vec<ForecastQuery>| {
        Ok(queries.iter().map(|_| ForecastResponse::Lookup(Ok(LookupResult::Miss))).collect())
    };
    let found = forecast(&plan(vec![node("a"), twin]), setup(), miss).unwrap();
    let decisions: Vec<ForecastDecision> = found.iter().map(|f| f.decision).collect();
    assert_eq!(decisions, [ForecastDecision::Run, ForecastDecision::Shared]);
    assert_eq!((found[1].why.as_str(), &found[1].digest), ("has the digest of `a`, which runs once", &found[0].digest));
}

#[test]
fn a_missing_secret_is_named() {
    let mut secret = node("a");
    secret.secrets = vec!["HF_TOKEN".into()];
    let plan = plan(vec![secret]);
    let mut sim = Simulation::new(&plan, setup());
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert!(sim.error("a").contains("secret `HF_TOKEN`"), "{}", sim.error("a"));
    let mut provided = setup();
    provided.secrets.insert("HF_TOKEN".into(), "env:HF_TOKEN".into());
    assert_eq!(Simulation::new(&plan, provided).finish(), RunOutcome::Succeeded);
}

#[test]
fn specs_name_local_sources_and_how_the_store_is_kept() {
    let source = |location: &str| SourceRef { location: location.into(), digest: Digest::of(location.as_bytes()) };
    let mut reader = node("a");
    reader.sources =
        BTreeMap::from([("/data".to_string(), source("/x/data")), ("/model".to_string(), source("hf://a/b@1"))]);
    let plan = plan(vec![reader]);
    let mut sim = Simulation::new(&plan, EngineSetup { fsync: true, ..setup() });
    sim.feed(Input::Begin);
    sim.carry_out(0);
    let Some(Command::Launch { spec, .. }) = sim.pending.first() else { panic!("no launch") };
    assert_eq!(spec.sources, BTreeMap::from([("/x/data".to_string(), Digest::of(b"/x/data"))]));
    assert_eq!((spec.fsync, spec.store_outage_millis), (true, Some(60_000)));
}

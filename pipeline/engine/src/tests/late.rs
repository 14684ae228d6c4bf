//! Tests that values known only during the run are validated and completed like those that `check` knows.

use super::simulation::Simulation;
use super::{Build, Complete, key, node, plan, setup};
use crate::fold::StageStatus::{Done, Failed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::event::RunOutcome;
use trainyard_core::{Digest, KindInfo, OptionProblem, Placement, Result, StageKinds, ValidatedOptions};
use trainyard_spec::expression::Expression;
use trainyard_spec::plan::{PlanNode, SourceRef};
use trainyard_spec::template::Template;

/// Catalog with the kind of [`node`].
struct OneKind(KindInfo);

impl OneKind {
    fn new() -> Self {
        let options = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "steps": {"type": "integer", "format": "uint8", "minimum": 1},
                "seed": {"type": "integer"},
                "folder": {"type": "string", "format": "source"},
            },
        });
        Self(KindInfo {
            name: "test",
            version: 1,
            summary: "a kind of the tests",
            doc: "",
            inputs: Vec::new(),
            outputs: Vec::new(),
            options: options.into(),
            placement: Placement::Process,
            all_cpus: false,
            trains: false,
            plays: false,
            example: "{}",
            main_metric: None,
            main_metric_with: Vec::new(),
            metrics: trainyard_core::DeclaredMetrics::default(),
            families: Vec::new(),
        })
    }
}

impl StageKinds for OneKind {
    fn names(&self) -> Vec<&str> {
        vec!["test"]
    }
    fn kind(&self, name: &str) -> Option<&KindInfo> {
        (name == "test").then_some(&self.0)
    }
    /// Checks a rule that no schema can express.
    fn validate_options(&self, _: &str, config: &Value) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        if config["steps"] == 3 {
            return Err(vec![OptionProblem::new("/steps", "three is one too many").help("two will do")]);
        }
        let mut complete = json!({"seed": 7});
        for (option, value) in config.as_object().into_iter().flatten() {
            complete[option.as_str()] = value.clone();
        }
        Ok(Box::new(Complete(complete)))
    }
}

/// Returns a stage after `a`, which reports an accuracy of 0.5.
fn late(option: &str, expression: &str) -> PlanNode {
    let mut late = node("b").needs(&["a"]);
    let value = Template::Expression(Expression::parse(expression).unwrap());
    late.config = Template::Map(BTreeMap::from([(option.to_string(), value)]));
    late
}

fn ran(late: PlanNode) -> Simulation {
    let mut setup = setup();
    setup.catalogue = Arc::new(OneKind::new());
    let mut sim = Simulation::new(&plan(vec![node("a"), late]), setup);
    sim.finish();
    sim
}

#[test]
fn late_options_get_their_declared_types_and_defaults() {
    let mut b = late("steps", "stages.a.metrics.accuracy * 4");
    if let Template::Map(entries) = &mut b.config {
        entries.insert("folder".into(), Template::Literal(json!("/data")));
    }
    b.sources.insert("/folder".into(), SourceRef { location: "/data".into(), digest: Digest::of(b"data") });
    let sim = ran(b);
    assert_eq!(sim.status("b"), Done, "{}", sim.error("b"));
    let manifest = sim.store.values().find(|m| m.provenance.stage == key("b")).unwrap();
    assert_eq!(manifest.config, json!({"steps": 2, "seed": 7, "folder": "/data"}));
}

#[test]
fn late_options_are_validated_before_an_attempt_starts() {
    let cases = [
        ("steps", "stages.a.metrics.accuracy * 0", "`steps` is `0`, but must be at least 1"),
        ("steps", "stages.a.metrics.accuracy", "`steps` must be a whole number, found `0.5`"),
        ("steps", "stages.a.status", "`steps` must be a whole number, found the text `succeeded`"),
        ("steps", "stages.a.metrics.accuracy * 600", "`steps` is 300, but must be from 0 to 255"),
        ("steps", "stages.a.metrics.accuracy * 6", "`steps`: three is one too many; two will do"),
        ("stepps", "stages.a.metrics.accuracy * 4", "there is no option `stepps`; did you mean `steps`?"),
        ("folder", "stages.a.status", "`folder`: the source `succeeded` must be known before the run"),
    ];
    for (option, expression, message) in cases {
        let sim = ran(late(option, expression));
        assert_eq!((sim.status("b"), sim.outcome()), (Failed, RunOutcome::Failed), "{expression}");
        let error = sim.error("b");
        assert!(error.starts_with("w.yaml:1:1: options of `b`: ") && error.contains(message), "{error}");
        assert_eq!(sim.launched, ["a"], "{expression}");
    }
}

#[test]
fn an_unreported_metric_is_named_with_what_to_do() {
    let nodes = vec![
        node("a"),
        node("b").needs(&["a"]).when("stages.a.metrics.f1 > 0.5"),
        node("c").needs(&["a"]).when("default(stages.a.metrics.f1, 1) > 0.5"),
        node("d").needs(&["a"]).when("stages.a.metrics.f1 == null"),
    ];
    let mut sim = Simulation::new(&plan(nodes), setup());
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert!(sim.error("b").contains("the stage did not report this metric; `default(…, 0)`"), "{}", sim.error("b"));
    assert_eq!((sim.status("b"), sim.status("c"), sim.status("d")), (Failed, Done, Done));
    let sim = ran(late("steps", "stages.a.metrics.f1"));
    assert!(sim.error("b").starts_with("w.yaml:1:1: in `stages.a.metrics.f1`"), "{}", sim.error("b"));
}

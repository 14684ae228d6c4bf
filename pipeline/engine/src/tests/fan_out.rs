//! Tests late fan-out: rows from a preview or from the table, bindings of instance to instance, and of all instances to
//! a `many` port.

use super::simulation::Simulation;
use super::{Build, key, node, plan, setup};
use crate::fold::StageStatus::{Blocked, Done, Failed, Skipped};
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::Error;
use trainyard_core::event::{AttemptOutcome, RunOutcome};
use trainyard_spec::expression::Expression;
use trainyard_spec::plan::Plan;
use trainyard_spec::template::Template;

fn with_item(mut node: trainyard_spec::plan::PlanNode, expression: &str) -> trainyard_spec::plan::PlanNode {
    let name = node.key.0.clone();
    let item = Template::Expression(Expression::parse(expression).unwrap());
    node.config =
        Template::Map(BTreeMap::from([("x".to_string(), item), ("name".to_string(), Template::Literal(json!(name)))]));
    node
}

fn fanned() -> Plan {
    plan(vec![
        node("list"),
        with_item(node("each").over("list", 100), "item.x"),
        with_item(node("then").over("list", 100).reads(&["each"]), "item.x"),
        node("all").reads(&["then"]),
    ])
}

fn rows(n: u32) -> Vec<serde_json::Value> {
    (0..n).map(|x| json!({ "x": x })).collect()
}

#[test]
fn one_instance_for_each_row_bound_one_to_one() {
    for preview in [true, false] {
        let mut sim = Simulation::new(&fanned(), setup());
        sim.rows = rows(3);
        sim.preview = preview;
        assert_eq!(sim.finish(), RunOutcome::Succeeded);
        assert_eq!(sim.launched.len(), 1 + 3 + 3 + 1);
        let then = sim.store.values().find(|m| m.provenance.stage == key("then[item=1]")).unwrap();
        let each = sim.store.values().find(|m| m.provenance.stage == key("each[item=1]")).unwrap();
        assert_eq!(then.inputs["in"].len(), 1);
        assert_eq!(then.inputs["in"][0].stage_digest, each.stage_digest);
        assert_eq!(then.config["x"], 1);
        let all = sim.store.values().find(|m| m.provenance.stage == key("all")).unwrap();
        assert_eq!(all.inputs["in"].len(), 3);
    }
}

#[test]
fn list_above_its_cap_fails_with_help() {
    let mut plan = fanned();
    plan.nodes[1].fan_out.as_mut().unwrap().cap = 2;
    for preview in [true, false] {
        let mut sim = Simulation::new(&plan, setup());
        sim.rows = rows(3);
        sim.preview = preview;
        assert_eq!(sim.finish(), RunOutcome::Failed);
        assert!(sim.error("each").contains("more than 2 rows"), "{}", sim.error("each"));
        assert_eq!(sim.status("all"), Blocked);
    }
}

#[test]
fn empty_list_makes_no_instances_and_succeeds() {
    let mut sim = Simulation::new(&fanned(), setup());
    sim.preview = false;
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["list", "all"]);
}

#[test]
fn one_failed_instance_blocks_its_own_followers_and_what_needs_all() {
    let mut sim = Simulation::new(&fanned(), setup()).with(|spec| {
        if spec.stage.0 == "each[item=1]" {
            Err((AttemptOutcome::Failed, Error::data("bad row")))
        } else {
            Ok(BTreeMap::new())
        }
    });
    sim.rows = rows(3);
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(
        (sim.status("each[item=1]"), sim.status("then[item=1]"), sim.status("then[item=2]")),
        (Failed, Blocked, Done)
    );
    assert_eq!((sim.status("each"), sim.status("all")), (Failed, Blocked));
}

#[test]
fn a_condition_on_the_row_skips_single_instances() {
    let mut plan = fanned();
    plan.nodes.truncate(2);
    plan.nodes[1] = plan.nodes[1].clone().when("item.x > 0");
    plan.nodes.push(node("all").reads(&["each"]));
    let mut sim = Simulation::new(&plan, setup());
    sim.rows = rows(3);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!((sim.status("each[item=0]"), sim.status("each[item=1]")), (Skipped, Done));
    let all = sim.store.values().find(|m| m.provenance.stage == key("all")).unwrap();
    assert_eq!(all.inputs["in"].len(), 2);
    plan.nodes[1] = plan.nodes[1].clone().when("item.x > 5");
    let mut sim = Simulation::new(&plan, setup());
    sim.rows = rows(3);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.status("all"), Skipped);
}

#[test]
fn condition_on_a_fan_out_is_evaluated_per_instance() {
    let mut plan = fanned();
    plan.nodes[1] = plan.nodes[1].clone().when("item.x > 0");
    plan.nodes[2] = plan.nodes[2].clone().when("stages.each.metrics.accuracy > 0.5");
    plan.nodes[3] = plan.nodes[3].clone().needs(&["each"]).when("min(stages.each.metrics.accuracy) < 0.2");
    let mut sim = Simulation::new(&plan, setup()).with(|spec| {
        let accuracy = if spec.stage.0 == "each[item=2]" { 0.9 } else { 0.1 };
        Ok(BTreeMap::from([("accuracy".to_string(), accuracy)]))
    });
    sim.rows = rows(3);
    assert_eq!(sim.finish(), RunOutcome::Succeeded, "{}", sim.error("then"));
    let then = |item: u32| sim.status(&format!("then[item={item}]"));
    assert_eq!((then(0), then(1), then(2)), (Skipped, Skipped, Done), "a skipped row has no accuracy, and needs none");
    let all = sim.store.values().find(|m| m.provenance.stage == key("all")).unwrap();
    assert_eq!(all.inputs["in"].len(), 1, "one input, with the instances that ran");
}

#[test]
fn instances_without_a_counterpart_have_no_metrics_of_it() {
    let plan = plan(vec![
        node("list"),
        with_item(node("each").over("list", 100), "item.x").when("stages.list.metrics.accuracy > 2"),
        with_item(node("then").over("list", 100).needs(&["each"]), "item.x")
            .when("default(stages.each.metrics.accuracy, 1) > 0.5"),
    ]);
    let mut sim = Simulation::new(&plan, setup());
    sim.rows = rows(2);
    assert_eq!(sim.finish(), RunOutcome::Succeeded, "{}", sim.error("then[item=0]"));
    assert_eq!((sim.status("each"), sim.status("then[item=1]")), (Skipped, Done));
}

#[test]
fn non_boolean_condition_fails_with_help() {
    let plan = plan(vec![node("list"), with_item(node("each").over("list", 100), "item.x").when("item.x")]);
    let mut sim = Simulation::new(&plan, setup());
    sim.rows = rows(1);
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert!(
        sim.error("each[item=0]").contains("is 0, not true or false; write a comparison"),
        "{}",
        sim.error("each[item=0]")
    );
}

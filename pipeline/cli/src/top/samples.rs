//! Builds the models that the tests of the screens share.

use super::model::{RunLine, RunModel, StageDetail, StageLine};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::progress::{ProgressMetric, ProgressRecord};
use trainyard_core::{RunId, StageKey};
use trainyard_engine::fold::{StageStatus, StageView, ViewKey};
use trainyard_views::curve_tail::Curves;
use trainyard_views::graph::{GraphNode, GraphView};

pub fn progress(done: u64) -> ProgressRecord {
    ProgressRecord {
        format: 1,
        at: 0,
        done,
        total: 400,
        unit: "steps".into(),
        rate: Some(12.5),
        seconds_left: Some(22.4),
        metric: Some(ProgressMetric { name: "loss".into(), value: 0.4312 }),
    }
}

pub fn run_line(run: &str, status: &'static str) -> RunLine {
    RunLine {
        run: RunId(run.into()),
        workflow: "agent".into(),
        status,
        elapsed: Some(125_000),
        done: 3,
        total: 6,
        progress: (status == "running").then(|| progress(120)),
        why: None,
    }
}

fn stage(key: &str, status: &'static str) -> StageLine {
    let is_done = status == "done";
    StageLine {
        key: StageKey(key.into()),
        status,
        took: is_done.then_some(61_000),
        metric: is_done.then(|| "loss 0.132".to_string()),
    }
}

/// Returns a run of the stages data, sft, rl for three seeds, and evaluate, each after the one before.
pub fn run_model() -> RunModel {
    let stages = vec![
        stage("data", "hit"),
        stage("sft", "done"),
        stage("rl[seed=1]", "done"),
        stage("rl[seed=2]", "running"),
        stage("rl[seed=3]", "waiting"),
        stage("evaluate", "pending"),
    ];
    let node = |(layer, (name, instances)): (usize, (&str, &[usize]))| GraphNode {
        name: name.into(),
        layer,
        instances: instances.to_vec(),
        after: layer.checked_sub(1).into_iter().collect(),
        counts: BTreeMap::new(),
    };
    let nodes: [(&str, &[usize]); 4] = [("data", &[0]), ("sft", &[1]), ("rl", &[2, 3, 4]), ("evaluate", &[5])];
    RunModel {
        line: run_line("20261128-101700-0000001", "running"),
        is_removed: false,
        graph: Arc::new(GraphView { nodes: nodes.into_iter().enumerate().map(node).collect() }),
        stages: Arc::new(stages),
        progress: BTreeMap::from([(StageKey("rl[seed=2]".into()), progress(120))]),
        detail: None,
    }
}

/// Returns the waiting stage of [`run_model`] with a log and two curves.
pub fn waiting_detail() -> StageDetail {
    let why = "slots of this machine, held by run 20261128-0900 (rl)".to_string();
    let curve = |scale: f64| (1..=20).map(|step| (step, scale * step as f64)).collect();
    StageDetail {
        stage: StageView {
            stage: ViewKey(StageKey("rl[seed=3]".into())),
            kind: "rl".into(),
            status: StageStatus::Waiting,
            why: Some(why.clone()),
            ..StageView::default()
        },
        status: "waiting",
        needs: vec!["sft (done)".into()],
        explanation: vec!["rl[seed=3] is waiting".into(), why],
        log: Arc::new((1..=30).map(|line| format!("line {line} \u{1b}[31mred\u{1b}[0m \u{1b}[2J")).collect()),
        curves: Arc::new(Curves::from([("kl".to_string(), curve(0.5)), ("reward".to_string(), curve(2.0))])),
    }
}

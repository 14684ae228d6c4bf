use super::*;
use crate::results::write_results;
use crate::testing::{assert_declared, context_in, input, outputs, run_stage};
use serde_json::{Value, json};
use std::path::Path;
use trainyard_api::report::{ReportCell, StageReport};
use trainyard_core::ErrorKind;
use trainyard_learn::statistics::Z_95;

/// Returns the greedy row of a problem; the level is 1 for a problem of `a`, 2 of `b`, 3 of `c`.
fn row(model: &str, problem: &str, correct: Option<bool>) -> ResultRow {
    let level = u32::from(problem.as_bytes()[0] - b'a') + 1;
    ResultRow { model: model.into(), problem_id: problem.into(), level, sample: -1, correct, ..ResultRow::default() }
}

/// Returns rows of one model: `a1+` is correct, `a2-` incorrect, `b1?` lost by the infrastructure.
fn rows(model: &str, text: &str) -> Vec<ResultRow> {
    let one = |word: &str| {
        let (problem, mark) = word.split_at(word.len() - 1);
        row(model, problem, if mark == "?" { None } else { Some(mark == "+") })
    };
    text.split(' ').map(one).collect()
}

fn options(tasks: usize) -> Value {
    let words = ["add", "mul", "div"];
    let names: Vec<Value> = (0..tasks).map(|i| json!({"name": words[i], "levels": [i + 1]})).collect();
    let models: Vec<String> = (1..=tasks).map(|t| format!("m{t}")).collect();
    json!({"tasks": names, "models": models})
}

fn run(folder: &Path, options: Value, tables: &[Vec<ResultRow>]) -> Result<(StageContext, StageReport)> {
    let mut context = context_in(folder, 1, None);
    outputs(&mut context, folder, &["report"]);
    for table in tables {
        input(&mut context, folder, "results", ArtifactKind::Table, |path| {
            write_results(&path.join("data.parquet"), table).unwrap();
        });
    }
    run_stage::<Forgetting>(options, &mut context)?;
    let report = StageReport::read(context.output("report")?)?;
    Ok((context, report))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} against {b}");
}

#[test]
fn two_tasks_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let table = [rows("m1", "a1+ a2+ b1- b2-"), rows("m2", "a1+ a2- b1+ b2+")].concat();
    let (context, report) = run(folder.path(), options(2), &[table]).unwrap();
    let m = &context.metrics;
    assert_eq!(
        (m["accuracy_1_add"], m["accuracy_1_mul"], m["accuracy_2_add"], m["accuracy_2_mul"]),
        (1.0, 0.0, 0.5, 1.0)
    );
    // Differences 0 and 1: mean 0.5, SE² = 0.5/2 = 0.25.
    assert_eq!((m["forgetting"], m["forgetting_of_add"], m["problems_add"]), (0.5, 0.5, 2.0));
    close(m["forgetting_low"], 0.5 - 0.5 * Z_95);
    close(m["forgetting_high"], 0.5 + 0.5 * Z_95);
    // Values 1 and 0 of the first task (SE² 0.25), 1 and 1 of the second (0): the mean's SE is √0.25 / 2.
    assert_eq!(m["final_accuracy"], 0.75);
    close(m["final_accuracy_low"], 0.75 - 0.25 * Z_95);
    assert!(
        !m.contains_key("learned") && !m.contains_key("forgetting_of_mul"),
        "nothing can be forgotten of the last task"
    );
    assert_eq!(report.metrics["forgetting"].n, Some(2));
    assert_eq!(report.metrics["accuracy_1_add"].high, Some(1.0), "Wilson's interval stays within 0..1");
    assert_eq!(
        report.tables[1].rows[0][..3],
        [ReportCell::text("add"), ReportCell::Number(1.0), ReportCell::Number(0.5)]
    );
    assert_declared::<Forgetting>(&options(2), &context);
}

#[test]
fn best_value_may_be_intermediate_and_tasks_have_equal_weight() {
    let folder = tempfile::tempdir().unwrap();
    let tables = [
        rows("m1", "a1+ a2-"),
        rows("m2", "a1+ a2+ b1+ b2+ b3+ b4+"),
        [rows("m3", "a1- a2+ b1- b2- b3- b4-"), rows("m3", "c1+")].concat(),
    ];
    let (context, report) = run(folder.path(), options(3), &tables).unwrap();
    let m = &context.metrics;
    // add: 1/2, then 1, then 1/2; mul: 1, then 0.
    assert_eq!((m["forgetting_of_add"], m["forgetting_of_mul"], m["forgetting"]), (0.0, 1.0, 0.5));
    assert_eq!(m["forgetting_from_best"], 0.75);
    // Differences 1 and −1 of add: SE² = (2 + 2)/4 = 1; mul has zero variance: √(1 + 0)/2.
    close(m["forgetting_high"], 0.5 + 0.5 * Z_95);
    // One problem of div gives no standard error, so the mean over tasks has no interval.
    close(m["final_accuracy"], 0.5);
    assert!(!m.contains_key("final_accuracy_low"));
    assert!(!m.contains_key("accuracy_1_mul"), "not tried before it was trained");
    assert_eq!(report.tables[0].rows[0][2..], [ReportCell::Empty, ReportCell::Empty, ReportCell::Empty]);
    assert_eq!(report.curves[0].series[1].points, [[2.0, 1.0], [3.0, 0.0]]);
}

#[test]
fn learned_metrics_need_the_initial_model() {
    let folder = tempfile::tempdir().unwrap();
    let tables = [rows("rl", "a1- a2- b1+ b2-"), rows("rl", "a1+ a2- b1- b2-"), rows("rl", "a1+ a2+ b1+ b2+")];
    let mut options = options(2);
    options["initial"] = json!("1/rl");
    options["models"] = json!(["2/rl", "3/rl"]);
    let (context, _) = run(folder.path(), options, &tables).unwrap();
    let m = &context.metrics;
    assert_eq!((m["accuracy_0_add"], m["accuracy_0_mul"]), (0.0, 0.5));
    assert_eq!((m["learned_of_add"], m["learned_of_mul"], m["learned"]), (0.5, 0.5, 0.5));
    // Differences 1 and 0, then 0 and 1: SE² 0.25 each, √0.5 / 2.
    close(m["learned_low"], 0.5 - 0.5f64.sqrt() / 2.0 * Z_95);
    assert_eq!((m["forgetting"], m["forgetting_from_best"]), (-0.5, 0.0), "later training helped");
}

#[test]
fn infrastructure_failures_leave_their_pair() {
    let folder = tempfile::tempdir().unwrap();
    let table = [rows("m1", "a1+ a2+ a3?"), rows("m2", "a1- a2? a3+ b1+")].concat();
    let (context, report) = run(folder.path(), options(2), &[table]).unwrap();
    assert_eq!((context.metrics["forgetting"], context.metrics["problems_add"]), (1.0, 1.0));
    assert_eq!(context.metrics["accuracy_2_add"], 0.5, "a cell holds all that was measured");
    assert!(report.notes.iter().any(|n| n.starts_with("2 times")), "{:?}", report.notes);
}

#[test]
fn missing_values_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, options: Value, tables: &[Vec<ResultRow>]| {
        run(&folder.path().join(name), options, tables).err().unwrap()
    };
    let untried = refused("untried", options(2), &[rows("m1", "a1+"), rows("m2", "b1+")]);
    assert!(
        untried.kind == ErrorKind::Data && untried.message.contains("`m2`") && untried.message.contains("`add`"),
        "{untried}"
    );
    let apart = refused("apart", options(2), &[rows("m1", "a1+"), rows("m2", "a2+ b1+")]);
    assert!(apart.message.contains("share no problem"), "{apart}");
    let unknown = refused("unknown", options(2), &[rows("m1", "a1+")]);
    assert!(unknown.message.contains("`m2`"), "{unknown}");
    let mut both = options(2);
    both["tasks"][1] = json!({"name": "mul", "id_prefix": "a"});
    let twice = refused("twice", both, &[rows("m1", "a1+"), rows("m2", "a1+")]);
    assert!(twice.kind == ErrorKind::Data && twice.message.contains("`a1`"), "{twice}");
    assert_eq!(refused("nothing", options(2), &[]).kind, ErrorKind::Invalid);
}

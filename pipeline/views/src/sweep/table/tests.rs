use super::*;
use serde_json::{Value, json};
use trainyard_core::Digest;
use trainyard_core::event::EventRecord;

/// Returns a run of a fan-out `rl` over two rates and three seeds, and a stage without axes.
fn swept(value: impl Fn(&str, u32) -> f64) -> RunView {
    let keys: Vec<(&str, u32, String)> = ["0.1", "0.02"]
        .iter()
        .flat_map(|lr| (1..=3).map(move |seed| (*lr, seed, format!("rl[lr={lr},seed={seed}]"))))
        .collect();
    let planned = |key: &String| json!({"stage": key, "kind": "rl", "main_metric": "reward"});
    let stages: Vec<Value> = keys.iter().map(|(.., key)| planned(key)).chain([planned(&"sft".to_string())]).collect();
    let created = json!({
        "type": "run_created", "format": 1, "workflow": "w", "source": "w.yaml", "plan_digest": Digest::of(b"plan"),
        "params": {}, "stages": stages,
    });
    let published = keys.iter().map(|(lr, seed, key)| {
        let reward = value(lr, *seed);
        json!({
            "type": "published", "stage": key, "attempt": 1, "digest": Digest::of(key.as_bytes()), "generation": 0,
            "metrics": {"reward": reward, "reward_low": reward - 1.0, "kl": f64::from(*seed)}, "outputs": {},
        })
    });
    let mut view = RunView::default();
    for event in [created].into_iter().chain(published) {
        view.apply(&EventRecord { at: 1, event: serde_json::from_value(event).unwrap() });
    }
    view
}

fn view(query: &SweepQuery) -> SweepView {
    let run = swept(|lr, seed| if lr == "0.1" { f64::from(seed) } else { f64::from(seed * seed) });
    of_view(&RunId("r".into()), &run, true, query).unwrap()
}

fn names(view: &SweepView) -> Vec<&str> {
    view.rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn seeds_are_pooled_and_paired() {
    let found = view(&SweepQuery::default());
    assert_eq!((found.stages.as_slice(), found.axes.join(" ")), (&["rl".to_string()][..], "lr seed".to_string()));
    assert_eq!(found.metrics, ["reward", "kl"], "the main metric is first, without the ends of intervals");
    assert_eq!(names(&found), ["lr=0.1", "lr=0.02"]);
    let (first, second) = (&found.rows[0].cells[0], &found.rows[1].cells[0]);
    assert_eq!((first.mean, first.deviation, first.values.len()), (Some(2.0), Some(1.0), 3));
    assert_eq!(second.mean, Some(14.0 / 3.0));
    assert_eq!((found.rows[0].axes[0].as_deref(), found.rows[0].axes[1].as_deref()), (Some("0.1"), None));
    assert_eq!(found.rows[0].statuses.values().sum::<usize>(), 3);
    // Differences 0, 2, 6 per seed: mean 8/3, deviation √(28/3), n = 3, t = 4.3027.
    let difference = &found.differences[0];
    assert_eq!((difference.name.as_str(), difference.pairs), ("lr=0.02", 3));
    let half = 4.302_652_73 * (28.0f64 / 3.0).sqrt() / 3f64.sqrt();
    let (low, high) = difference.interval.unwrap();
    assert!((low - (8.0 / 3.0 - half)).abs() < 1e-6 && (high - (8.0 / 3.0 + half)).abs() < 1e-6, "{low} {high}");
}

#[test]
fn metrics_that_differ_are_the_first_columns() {
    let mut run = swept(|_, seed| f64::from(seed));
    for (place, stage) in (0u32..).zip(&mut run.stages) {
        let place = f64::from(place);
        for (name, value) in [("advantage", place), ("loss", place), ("reward_per_call", 0.0)] {
            stage.metrics.insert(name.to_string(), value);
        }
    }
    let found = of_view(&RunId("r".into()), &run, true, &SweepQuery::default()).unwrap();
    assert_eq!(found.metrics, ["reward", "loss", "kl"], "`reward_per_call` is 0 everywhere");
}

#[test]
fn instances_are_sorted_by_axis_or_metric() {
    let query =
        |sort: &str| SweepQuery { pool: Some(NO_POOL.into()), sort: Some(sort.into()), ..SweepQuery::default() };
    let by_axis = view(&query("lr"));
    assert_eq!(by_axis.rows[0].name, "lr=0.02,seed=1", "numbers are compared as numbers");
    assert_eq!(view(&query("-lr")).rows[0].name, "lr=0.1,seed=1");
    let by_metric = view(&query("-reward"));
    assert_eq!(by_metric.rows[0].name, "lr=0.02,seed=3");
    assert_eq!((by_metric.rows[0].cells[0].mean, by_metric.rows[0].cells[0].deviation), (Some(9.0), None));
    let difference = by_metric.differences.iter().find(|row| row.name == "lr=0.02,seed=3").unwrap();
    assert_eq!((difference.difference, difference.interval), (8.0, None), "one pair has no interval");
}

#[test]
fn another_axis_can_be_pooled_and_another_row_be_the_baseline() {
    let query = SweepQuery { pool: Some("lr".into()), baseline: Some("seed=2".into()), ..SweepQuery::default() };
    let found = view(&query);
    assert_eq!((names(&found), found.baseline.as_deref()), (vec!["seed=1", "seed=2", "seed=3"], Some("seed=2")));
    assert_eq!(found.rows[1].cells[0].mean, Some(3.0));
    let differences: Vec<f64> = found.differences.iter().map(|row| row.difference).collect();
    assert_eq!(differences, [-2.0, 3.0]);
}

#[test]
fn unknown_names_are_errors_with_the_known_ones() {
    let run = swept(|_, _| 1.0);
    let id = RunId("r".into());
    let error = |query: &SweepQuery| of_view(&id, &run, true, query).unwrap_err();
    let wrong = error(&SweepQuery { stage: Some("sft".into()), ..SweepQuery::default() });
    assert_eq!(
        (wrong.message.as_str(), wrong.help.as_deref()),
        ("run r has no stage `sft` with a `matrix`", Some("its fan-outs are rl"),)
    );
    let wrong = error(&SweepQuery { baseline: Some("x".into()), ..SweepQuery::default() });
    assert_eq!(wrong.message, "the sweep has no row `x`");
    let none = of_view(&id, &RunView::default(), true, &SweepQuery::default()).unwrap_err();
    assert!(none.message.contains("no stage with a `matrix`"), "{none}");
}

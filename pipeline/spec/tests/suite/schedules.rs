//! Tests the key `schedule` in a plan, and the param that receives the time of a tick.

use crate::catalogue::Kinds;
use crate::compiles::Memory;
use crate::samples::site;
use std::path::Path;
use trainyard_spec::compile::{Compilation, CompileRequest, compile};
use trainyard_spec::schedule::{Catchup, Overlap, Schedule, ScheduleStart, Trigger};

fn compiled(text: &str, params: &[&str], tick: Option<&str>) -> Compilation {
    let params: Vec<String> = params.iter().map(ToString::to_string).collect();
    compile(&CompileRequest {
        files: &Memory::of(&[("/w/f.yaml", text)]),
        path: Path::new("/w/f.yaml"),
        working_directory: Path::new("/cwd"),
        params: &params,
        tick,
        catalogue: &Kinds::new(),
        site: &site(),
    })
}

fn with_schedule(schedule: &str) -> Option<Schedule> {
    let text =
        format!("version: 1\nname: f\nschedule: {schedule}\nstages:\n  one: {{run: ./download, cache: false}}\n");
    let compiled = compiled(&text, &[], None);
    let lines: Vec<String> = compiled.diagnostics.iter().map(|d| compiled.sources.line(d)).collect();
    assert!(lines.is_empty(), "{lines:?}");
    compiled.plan.unwrap().schedule
}

#[test]
fn a_schedule_is_read_with_its_defaults() {
    assert_eq!(with_schedule("{cron: \"0 2 * * *\"}"), Some(Schedule::cron("0 2 * * *", "UTC")));
    let full = "{cron: \"*/10 * * * *\", timezone: Asia/Tokyo, catchup: all, catchup_window: 6h, overlap: cancel, \
                jitter: 5m}";
    let expected = Schedule {
        catchup: Catchup::All,
        catchup_window_millis: 6 * 3_600_000,
        overlap: Overlap::Cancel,
        jitter_millis: 300_000,
        ..Schedule::cron("*/10 * * * *", "Asia/Tokyo")
    };
    assert_eq!(with_schedule(full), Some(expected));
    let on = |on| ScheduleStart::On { on };
    let artifact = Trigger::Artifact("problems.collect.problems".into());
    let expected = Schedule { overlap: Overlap::Queue, ..Schedule::new(on(artifact)) };
    assert_eq!(with_schedule("{on: {artifact: problems.collect.problems}, overlap: queue}"), Some(expected));
    let files = Schedule::new(on(Trigger::Files("s3://b/in".into())));
    assert_eq!(with_schedule("{on: {files: \"s3://b/in\"}}"), Some(files));
}

#[test]
fn a_schedule_survives_json() {
    for schedule in [
        Schedule { jitter_millis: 7, ..Schedule::cron("0 2 * * *", "Europe/Paris") },
        Schedule::new(ScheduleStart::On { on: Trigger::Files("/data".into()) }),
    ] {
        let json = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule, "{json}");
    }
}

const TICKING: &str = "version: 1\nname: f\nparams: {tick: {type: string}}\nschedule: {cron: \"0 2 * * *\"}\n\
    stages:\n  one: {run: \"./download ${{ params.tick }}\"}\n";
const TIME: &str = "2026-11-21T02:00:00Z";

#[test]
fn the_time_of_a_tick_is_the_value_of_a_param() {
    let compiled_at = compiled(TICKING, &[], Some(TIME));
    let lines: Vec<String> = compiled_at.diagnostics.iter().map(|d| compiled_at.sources.line(d)).collect();
    assert!(lines.is_empty(), "a stage that uses the tick changes every time: {lines:?}");
    let plan = compiled_at.plan.unwrap();
    assert_eq!(plan.params["tick"], TIME);
    let later = compiled(TICKING, &[], Some("2026-11-22T02:00:00Z")).plan.unwrap();
    assert_ne!(plan.digest, later.digest);
    assert_eq!(compiled(TICKING, &["tick=mine"], Some(TIME)).plan.unwrap().params["tick"], "mine", "-p wins");
    assert!(compiled(TICKING, &[], None).plan.is_none(), "by hand it needs a value");
    let without = "version: 1\nname: f\nstages:\n  one: {run: ./download}\n";
    assert!(compiled(without, &[], Some(TIME)).plan.unwrap().params.is_empty(), "who declares none gets none");
}

#[test]
fn params_are_declared_with_their_defaults_as_written_even_if_values_are_missing() {
    let text = "version: 1\nname: f\nparams:\n  \
                steps: {type: int, default: 1e3, min: 1, description: Optimizer steps.}\n  \
                code: {type: string, default: 1e3}\n  mode: {type: string, choices: [a, b]}\n  \
                limit: {type: int, default: null}\n  names: {type: list, items: string, default: [x, y]}\n  \
                model: {type: model}\nstages:\n  one: {run: \"./x ${{ params.steps }}\"}\n";
    let compiled = compiled(text, &[], None);
    assert!(compiled.plan.is_none(), "`mode` and `model` have no value");
    assert_eq!(compiled.workflow.as_deref(), Some("f"));
    let short: Vec<_> = compiled.params.iter().map(|p| (p.name.as_str(), p.kind, p.default.as_str())).collect();
    assert_eq!(
        short,
        [
            ("steps", "int", "1e3"),
            ("code", "string", "1e3"),
            ("mode", "string", ""),
            ("limit", "int", ""),
            ("names", "list", "[\"x\",\"y\"]"),
            ("model", "model", ""),
        ]
    );
    let [steps, _, mode, limit, names, model] = compiled.params.as_slice() else { unreachable!("six params") };
    assert_eq!((steps.min, steps.description.as_deref()), (Some(1.0), Some("Optimizer steps.")));
    assert_eq!((mode.has_default, &mode.choices), (false, &vec!["a".to_string(), "b".to_string()]));
    assert_eq!((limit.has_default, names.items), (true, Some("string")));
    assert!(model.is_artifact && !mode.is_artifact);
}

use super::*;
use trainyard_core::StageKey;
use trainyard_engine::fold::ViewKey;

fn off(outcome: RunOutcome, stages: &[StageView]) -> Vec<String> {
    disabled_problems(outcome, stages, &Catalogue::builder().build().unwrap())
}

fn check(role: &str, passed: bool) -> CheckResult {
    CheckResult {
        metric: "m".into(),
        of: None,
        value: Some(0.0),
        min: Some(1.0),
        max: None,
        gates: true,
        role: Some(role.into()),
        passed,
    }
}

fn stage(name: &str, kind: &str, status: StageStatus, checks: Vec<CheckResult>) -> StageView {
    StageView { stage: ViewKey(StageKey(name.into())), kind: kind.into(), status, checks, ..StageView::default() }
}

/// Returns an arm, and a comparison with one check of each role.
fn stages(arm: StageStatus, compare: StageStatus, mechanism: bool, guard: bool) -> Vec<StageView> {
    let checks = vec![check("mechanism", mechanism), check("guard", guard)];
    vec![stage("arms[arm=treatment]", "rl", arm, Vec::new()), stage("compare", "compare", compare, checks)]
}

#[test]
fn enabled_run_requires_every_check() {
    assert!(
        enabled_problems(RunOutcome::Succeeded, &stages(StageStatus::Done, StageStatus::Done, true, true)).is_empty()
    );
    for (mechanism, guard, role) in [(false, true, "mechanism check failed"), (true, false, "guard check failed")] {
        let problems =
            enabled_problems(RunOutcome::Failed, &stages(StageStatus::Done, StageStatus::Failed, mechanism, guard));
        assert!(problems.len() == 1 && problems[0].contains(role), "{problems:?}");
    }
    let both = enabled_problems(RunOutcome::Failed, &stages(StageStatus::Done, StageStatus::Failed, false, false));
    assert_eq!(both.len(), 2, "all failed checks are reported");
    let skipped =
        enabled_problems(RunOutcome::Succeeded, &[stage("compare", "compare", StageStatus::Skipped, Vec::new())]);
    assert!(skipped[0].contains("no check"), "{skipped:?}");
}

#[test]
fn disabled_run_requires_failed_mechanism_and_passed_guards() {
    assert!(off(RunOutcome::Failed, &stages(StageStatus::Hit, StageStatus::Failed, false, true)).is_empty());
    let blind = off(RunOutcome::Succeeded, &stages(StageStatus::Hit, StageStatus::Done, true, true));
    assert!(blind.len() == 1 && blind[0].contains("mechanism check holds"), "{blind:?}");
    let harm = off(RunOutcome::Failed, &stages(StageStatus::Hit, StageStatus::Failed, false, false));
    assert!(harm.len() == 1 && harm[0].contains("guard check failed"), "{harm:?}");
    let mut sane = stages(StageStatus::Hit, StageStatus::Failed, false, true);
    sane[1].checks.push(check("sanity", false));
    assert!(off(RunOutcome::Failed, &sane).is_empty(), "sanity checks may fail when off");
}

#[test]
fn disabled_run_rejects_retraining() {
    let again = off(RunOutcome::Failed, &stages(StageStatus::Done, StageStatus::Failed, false, true));
    assert!(again.len() == 1 && again[0].contains("arms[arm=treatment]: was trained again"), "{again:?}");
}

#[test]
fn broken_stage_is_reported_in_both_directions() {
    let mut list = stages(StageStatus::Failed, StageStatus::Blocked, false, true);
    list[0].error = Some(Error::data("loss is NaN at step 3"));
    list[1].checks.clear();
    for judge in [enabled_problems, off] {
        let problems = judge(RunOutcome::Failed, &list);
        assert!(problems[0].contains("loss is NaN"), "{problems:?}");
    }
    let outcome = AblationResult {
        recipe: "r".into(),
        on: AblationRun {
            run: RunId("x".into()),
            seconds: 1.5,
            checks: 0,
            problems: enabled_problems(RunOutcome::Failed, &list),
        },
        off: None,
    };
    assert!(!outcome.is_good());
    assert_eq!(
        outcome.text(),
        "r: on WRONG (0 checks, 1.5 s), off not run\n  on: arms[arm=treatment]: loss is NaN at step 3"
    );
}

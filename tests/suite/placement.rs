//! Attempts go elsewhere when their pool does not carry them to an end.

use crate::kit::Sandbox;

/// Writes a site of two pools, of which the first cannot start an attempt, and a stage that may run in both.
fn two_pools(s: &Sandbox, retry: &str) {
    s.write(
        "trainyard.yaml",
        "version: 1\npools:\n  \
         - {name: broken, program: /nowhere/trainyard, cpus: 1, tags: [spot], priority: 5, with: {orphans: keep}}\n  \
         - {name: sound, cpus: 1, tags: [own]}\n",
    );
    s.write(
        "w.yaml",
        format!(
            "version: 1\nname: w\nstages:\n  one:\n    run: echo hello\n    \
             resources: {{any_of: [{{tags: [spot]}}, {{tags: [own]}}]}}\n    retry: {retry}\n"
        ),
    );
}

/// Returns the pools of the attempts of the last run's only stage.
fn pools(s: &Sandbox) -> Vec<String> {
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let attempts = shown["stages"][0]["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["pool"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_pool_that_loses_its_attempts_goes_behind_the_others() {
    let s = Sandbox::new();
    two_pools(&s, "{attempts: 2, backoff: 0s..0s}");
    s.run(&["run", "w.yaml"]).code(0).says("cannot start /nowhere/trainyard");
    assert_eq!(pools(&s), ["broken", "sound"]);
}

#[test]
fn one_attempt_stays_in_the_first_pool() {
    let s = Sandbox::new();
    two_pools(&s, "{attempts: 1}");
    s.run(&["run", "w.yaml"]).code(1).says("cannot start /nowhere/trainyard");
    assert_eq!(pools(&s), ["broken"]);
}

#[test]
fn limits_of_preemptions_are_checked() {
    let s = Sandbox::new();
    for (retry, code, says) in [
        ("{preemptions: 0}", 0, ""),
        ("{attempts: 1, preemptions: 100000}", 0, ""),
        ("{preemptions: -1}", 2, "`preemptions` is -1"),
        ("{preemptions: many}", 2, "`preemptions`"),
    ] {
        two_pools(&s, retry);
        s.run(&["check", "w.yaml"]).code(code).says(says);
    }
}

//! Any process may be killed at any moment; the same command ends with the same artifacts.

use crate::kit::{Sandbox, ran, wait_for};
use crate::processes::{kill, matching, signal};
use crate::slow_chain;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Returns a run of `slow.yaml` whose engine was killed while stage two waited.
fn killed_in_stage_two() -> Sandbox {
    let s = Sandbox::new();
    let mut child = slow_chain::start(&s, 1);
    kill(&mut child);
    s
}

#[test]
fn killed_engine_is_taken_over_under_the_same_run_id() {
    let s = killed_in_stage_two();
    s.write("go", "");
    let ran = s.run(&["run", "slow.yaml"]).code(0);
    assert!(
        ran.stderr.contains("resum") || ran.stdout.contains("resum"),
        "the output must say that the run was resumed\n{}{}",
        ran.stdout,
        ran.stderr
    );
    assert_eq!((s.logged("one"), s.logged("two")), (1, 2));
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[test]
fn a_run_whose_journal_is_damaged_is_followed_by_a_new_one() {
    for damage in ["is missing", "is damaged"] {
        let s = killed_in_stage_two();
        let journal: Vec<String> =
            s.files(".trainyard/runs").into_iter().filter(|f| f.contains("/journal/") && !f.contains('#')).collect();
        assert!(journal.len() > 2, "{journal:?}");
        let middle = s.store().join("runs").join(&journal[1]);
        match damage {
            "is missing" => std::fs::remove_file(middle).unwrap(),
            _ => std::fs::write(middle, "{half").unwrap(),
        }
        s.write("go", "");
        s.run(&["run", "slow.yaml"]).code(0).says(damage).says(&journal[1]).says("starting a new run");
        assert_eq!(s.logged("one"), 1, "what was published is a hit");
        s.run(&["run", "slow.yaml"]).code(0);
    }
}

#[test]
fn of_commands_that_start_together_one_computes() {
    let s = Sandbox::new();
    slow_chain::write(&s);
    let mut children: Vec<_> = (0..6).map(|_| s.spawn(&["run", "slow.yaml"])).collect();
    let mut codes = Vec::new();
    wait_for("all but one to be refused", 60, || {
        children.retain_mut(|child| match child.try_wait().unwrap() {
            Some(status) => {
                codes.push(status.code());
                false
            }
            None => true,
        });
        children.len() == 1
    });
    assert_eq!(codes, [Some(3); 5]);
    s.write("go", "");
    assert_eq!(children[0].wait().unwrap().code(), Some(0));
    assert_eq!((s.logged("one"), s.logged("two")), (1, 1));
    assert_eq!(s.run(&["runs", "list", "--format", "json"]).code(0).json().as_array().unwrap().len(), 1);
}

#[test]
fn of_files_that_share_a_stage_one_computes_it() {
    let s = Sandbox::new();
    let text = "version: 1\nname: NAME\nstages:\n  a:\n    \
                run: echo a >> @log; sleep 2; echo 1 > ${{ outputs.o }}/x\n    \
                outputs: {o: files}\n";
    for name in ["one", "other"] {
        s.write_placed(&format!("{name}.yaml"), &text.replace("NAME", name));
    }
    let first = s.spawn(&["run", "one.yaml"]);
    wait_for("the stage", 20, || s.logged("a") == 1);
    let second = ran(s.command(&["run", "other.yaml"]).output().unwrap()).code(0);
    second.says("because another run computes the same");
    ran(first.wait_with_output().unwrap()).code(0);
    assert_eq!(s.logged("a"), 1);
}

#[test]
fn attempts_die_with_their_engine() {
    let s = Sandbox::new();
    let mut child = slow_chain::start(&s, 1);
    kill(&mut child);
    let marker = s.path("go").display().to_string();
    wait_for("the attempt's end", 10, || matching(&marker).is_empty());
}

/// A script that ignores the request to stop, with a process outside its group that also ignores it.
const STUBBORN: &str = r#"
version: 1
name: stubborn
stages:
  stubborn:
    run: |
      trap '' TERM
      setsid sh -c 'touch @started; while :; do sleep 0.2; done' &
      while :; do sleep 0.2; done
"#;

#[test]
fn nothing_of_a_stubborn_attempt_outlives_its_engine() {
    let s = Sandbox::new();
    s.write_placed("stubborn.yaml", STUBBORN);
    let mut child = s.spawn(&["run", "stubborn.yaml"]);
    wait_for("the stage", 20, || s.path("started").exists());
    kill(&mut child);
    let marker = s.path("started").display().to_string();
    wait_for("the end of all that it started", 20, || matching(&marker).is_empty());
}

#[test]
fn scratch_of_a_killed_attempt_is_removed_by_the_next() {
    let s = Sandbox::new();
    let child = slow_chain::start(&s, 1);
    let found = matching(&format!("attempt .*{}", s.name()));
    assert!(Command::new("kill").arg("-9").args(&found).status().unwrap().success(), "{found:?}");
    wait_for("the second attempt", 30, || s.logged("two") == 2);
    assert_eq!(s.files("home/scratch").iter().filter(|name| name.ends_with("/lock")).count(), 1);
    s.write("go", "");
    ran(child.wait_with_output().unwrap()).code(0);
    assert_eq!(s.files("home/scratch"), ["lock"]);
}

#[test]
fn interrupt_ends_with_130_and_the_run_continues_later() {
    let s = Sandbox::new();
    let mut child = slow_chain::start(&s, 1);
    signal("-INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    s.write("go", "");
    s.run(&["run", "slow.yaml"]).code(0);
    assert_eq!(s.logged("one"), 1, "stage one came from the cache");
}

/// Replaces a file of the store by a pipe without a writer: its readers block, as on a disk that does not respond.
fn freeze(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_third_interrupt_ends_a_run_whose_disk_stands_still() {
    let s = Sandbox::new();
    let mut child = slow_chain::start(&s, 1);
    let batches = || s.files(".trainyard/runs").into_iter().filter(|file| file.contains("/journal/"));
    let last = s.store().join("runs").join(batches().next_back().unwrap());
    let number: u64 = last.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let journal = last.parent().unwrap();
    freeze(&journal.parent().unwrap().join("cancel/1"));
    freeze(&journal.join(format!("{:010}", number + 1)));
    // The run checks for requests every second, and writes a heartbeat every ten.
    std::thread::sleep(Duration::from_secs(12));
    for signals in 0..3 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended after {signals} signals");
        signal("-INT", &child.id().to_string());
        std::thread::sleep(Duration::from_millis(300));
    }
    wait_for("the end", 10, || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Starts the slow run with SIGHUP set by `env`, independent of how the tests were started.
fn with_hangup(s: &Sandbox, how: &str) -> Child {
    let plain = s.command(&["run", "slow.yaml"]);
    let mut command = Command::new("env");
    command.arg(how).arg(plain.get_program()).args(plain.get_args()).current_dir(s.path(""));
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_closed_terminal_ends_a_run_like_an_interrupt_unless_that_is_to_be_ignored() {
    let s = Sandbox::new();
    slow_chain::write(&s);
    let hang_up = |child: &Child| signal("-HUP", &child.id().to_string());
    let mut child = with_hangup(&s, "--default-signal=HUP");
    wait_for("stage two", 20, || s.logged("two") == 1);
    hang_up(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(runs[0]["status"], "cancelled", "{runs}");
    let mut child = with_hangup(&s, "--ignore-signal=HUP");
    wait_for("stage two again", 20, || s.logged("two") == 2);
    hang_up(&child);
    s.write("go", "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

const PRACTICE: &str = r#"
version: 1
name: practice
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 20}}, rl: {levels: {1: 40}}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64,
          seed: 1}
  rl:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems }}
      # A random model ends its turn by chance: rewarded for ending early, it has something to learn in every group.
      rewards: [{kind: length, max_tokens: 40, buffer_tokens: 40}]
      filters: []
      steps: 60
      problems_per_step: 4
      rollout: {group_size: 4, max_turn_tokens: 40}
      checkpoint_every: 5
      seed: 1
"#;

fn outputs_of_rl(s: &Sandbox) -> Vec<(String, String)> {
    let list = s.run(&["artifacts", "list", "--format", "json"]).code(0).json();
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_string();
    let named = |name: &str| name.rsplit_once("/rl/").map(|(_, port)| port.to_string());
    let all = list.as_array().unwrap().iter();
    all.filter_map(|a| Some((named(&text(&a["artifact"]))?, text(&a["digest"])))).collect()
}

#[test]
fn killed_reinforcement_learning_ends_with_the_same_digests() {
    let (whole, killed) = (Sandbox::new(), Sandbox::new());
    for s in [&whole, &killed] {
        s.write("practice.yaml", PRACTICE);
    }
    whole.run(&["run", "practice.yaml"]).code(0);
    let mut child = killed.spawn(&["run", "practice.yaml"]);
    wait_for("a checkpoint", 60, || !killed.files(".trainyard/checkpoints").is_empty());
    kill(&mut child);
    assert!(outputs_of_rl(&killed).is_empty(), "it must be killed before it is done");
    killed.run(&["run", "practice.yaml"]).code(0).says("resum");
    killed.run(&["logs", "latest", "rl"]).code(0).prints("resuming after step");
    let digests = outputs_of_rl(&whole);
    assert_eq!(digests.len(), 3, "{digests:?}");
    assert_eq!(digests, outputs_of_rl(&killed));
}

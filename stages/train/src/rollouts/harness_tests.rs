//! Tests episodes of programs over HTTP. The tests need Python's standard library.

use super::*;
use crate::testing::{environment, half_trained, sums};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, ErrorKind, Result};
use trainyard_envs::environments::{family, line};
use trainyard_envs::{Environment, ToolHost, Toolbox};
use trainyard_harness::Harness;
use trainyard_learn::{ProgramCalls, Rollout};
use trainyard_tables::{EpisodeStatus, SamplingParams, StopReason, Trajectory};

/// Returns whether Python 3 is installed; tests that need it are skipped otherwise.
fn python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED: there is no python3");
    }
    found
}

fn harness(options: Value) -> Box<dyn Environment> {
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/../harness/fixtures/agent.py");
    let mut all = json!({
        "kind": "harness", "command": ["python3", agent], "format": "code", "describe_tools": false, "max_turns": 3,
        "timeout": "60s",
    });
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let mut environments = family();
    let toolbox = Arc::new(Toolbox::standard());
    environments.add(line(&toolbox, |o, setup| Ok(Box::new(Harness::new(o, setup)?)))).unwrap();
    environments.build(&environments.complete(&all).unwrap(), &ToolHost::new(1)).unwrap()
}

fn habit(habit: &str) -> Box<dyn Environment> {
    harness(json!({"options": {"habit": habit}}))
}

fn roll(environment: &dyn Environment, running: usize, problems: usize) -> Result<Vec<Rollout>> {
    let jobs: Vec<EpisodeJob> = (0..problems).flat_map(|p| (0..2).map(move |s| EpisodeJob::root(p, s))).collect();
    let mut generator = half_trained().generator(1)?;
    let (list, cancel) = (sums(problems, 3, 7), CancelToken::default());
    let kv_memory = 1 << 30;
    let limits =
        EpisodeLimits { turn_tokens: 16, episode_tokens: 96, running, kv_memory, tool_wait: ToolWait::Trajectory };
    let (chance, name, model) = (Chance::new(4), "t".into(), half_trained());
    let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    RolloutDriver { sampler: &mut generator, model, environment, limits, sampling, chance, name, cancel: &cancel }
        .run(&list, &jobs)
}

/// Finds the native episodes whose calls are all sums of two numbers, for which any agent computes the same result.
fn plain_sums(native: &[Rollout]) -> Vec<usize> {
    let is_sum = |text: &str| {
        let calls: Value = serde_json::from_str(text).unwrap();
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        calls.as_array().unwrap().iter().all(|call| {
            let expression = call["arguments"]["expression"].as_str().unwrap();
            expression.split_once('+').is_some_and(|(a, b)| number(a) && number(b))
        })
    };
    let sure = |one: &Rollout| {
        let mut calls = one.trajectory.messages.iter().filter_map(|m| m.tool_calls.as_deref());
        one.trajectory.tool_errors == 0 && calls.all(is_sum)
    };
    let found: Vec<usize> = (0..native.len()).filter(|i| sure(&native[*i])).collect();
    assert!(found.iter().filter(|i| native[**i].turns.len() > 1).count() > 2, "some call their tool");
    found
}

/// Removes the program counts from the rows.
/// Returns rollouts without what a program adds, and without the check, which names the environment's own verifier.
fn plain(rollouts: Vec<Rollout>) -> Vec<Rollout> {
    let one = |rollout: Rollout| {
        let trajectory = Trajectory { answer_check: None, ..rollout.trajectory };
        Rollout { calls: ProgramCalls::default(), trajectory, ..rollout }
    };
    rollouts.into_iter().map(one).collect()
}

#[test]
fn an_agent_in_any_form_gives_the_bits_of_the_native_path() {
    if !python() {
        return;
    }
    let native = plain(roll(&*environment(), 64, 8).unwrap());
    let sure = plain_sums(&native);
    for api in ["chat", "responses", "anthropic"] {
        let rollouts = roll(&*harness(json!({"options": {"api": api}})), 4, 8).unwrap();
        assert!(rollouts.iter().all(|one| one.calls.segments == 1), "{api}");
        let rollouts = plain(rollouts);
        for i in &sure {
            assert_eq!(rollouts[*i], native[*i], "{api}");
        }
    }
}

#[test]
fn verdict_of_a_program_replaces_the_verifier() {
    if !python() {
        return;
    }
    let rollouts = roll(&*habit("judges"), 4, 2).unwrap();
    let answered: Vec<&Rollout> =
        rollouts.iter().filter(|one| one.trajectory.stop_reason == StopReason::Answer).collect();
    assert!(!answered.is_empty());
    assert!(answered.iter().all(|one| one.correct && one.trajectory.rewards["verdict"] == 0.25));
    let knows = harness(json!({"options": {"habit": "knows"}, "show_answer": true}));
    let rollouts = roll(&*knows, 4, 2).unwrap();
    assert!(rollouts.iter().filter(|one| one.trajectory.answer.is_some()).all(|one| one.correct));
    let garbled = roll(&*habit("garbles"), 1, 1).unwrap_err();
    assert!(garbled.message.contains("not a valid verdict") && garbled.kind == ErrorKind::Data, "{garbled}");
}

#[test]
fn concurrent_and_refused_calls_are_counted() {
    if !python() {
        return;
    }
    // Turns under prompts that the model does not know may reach a limit, which ends their episodes.
    let calls = |name: &str| -> Vec<ProgramCalls> {
        let played = harness(json!({"options": {"habit": name}, "max_turns": 9}));
        roll(&*played, 2, 3).unwrap().into_iter().map(|one| one.calls).collect()
    };
    assert!(calls("beside").iter().any(|calls| calls.segments == 2 && calls.forked == 0));
    assert!(calls("refused").iter().all(|calls| calls.refused <= 1));
    assert!(calls("refused").iter().any(|calls| calls.refused == 1));
    assert!(calls("cold").iter().any(|calls| calls.ignored > 0));
    assert!(calls("together").iter().any(|calls| calls.segments > 2));
}

#[test]
fn turns_of_a_given_form_record_both_probabilities() {
    if !python() {
        return;
    }
    let rollouts = roll(&*habit("chooses"), 2, 2).unwrap();
    let mut generator = half_trained().generator(1).unwrap();
    let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    for one in &rollouts {
        let row = &one.trajectory;
        assert_eq!((row.stop_reason, one.calls.segments, one.calls.refused), (StopReason::Answer, 1, 1));
        // Of `"yes"` or `"no"` only the first letter is a choice, of `"only"` nothing.
        let learned: Vec<usize> = (0..one.mask.len()).filter(|t| one.mask[*t]).collect();
        assert_eq!(learned, [one.turns[0].first + 1]);
        assert_eq!(one.turns[1].end - one.turns[1].first, 7, "six characters and the end");
        let free = generator.logprobs_of(&[&row.token_ids], &sampling).unwrap().remove(0).logprobs;
        let logprobs = row.logprobs.as_ref().unwrap();
        for t in (0..one.mask.len()).filter(|t| row.loss_mask[*t]) {
            assert_eq!(one.old_logprobs[t], f64::from(free[t]), "token {t}");
            assert_eq!(logprobs[t] == 0.0, !one.mask[t], "token {t}");
            assert!(f64::from(logprobs[t]) > one.old_logprobs[t], "token {t}");
        }
    }
}

#[test]
fn failing_program_is_contained_and_reported() {
    if !python() {
        return;
    }
    for (name, words) in [("silent", "before the first response of the model"), ("broken", "exited with status 1")] {
        let error = roll(&*habit(name), 1, 1).unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains(words), "{error}");
        assert!(error.message.contains("environment `harness` (python3 agent.py)"), "{error}");
    }
    let floods = roll(&*habit("floods"), 2, 1).unwrap();
    assert!(floods.iter().all(|one| one.trajectory.status == EpisodeStatus::Ok));
    let of = |on_failure: &str| {
        roll(&*harness(json!({"options": {"habit": "crashes"}, "on_failure": on_failure, "max_turns": 9})), 2, 1)
    };
    let ended = of("end").unwrap();
    assert!(ended.iter().all(|one| one.trajectory.status == EpisodeStatus::Ok && one.trajectory.answer.is_none()));
    assert!(of("skip").unwrap().iter().any(Rollout::failed));
    assert!(of("fail").unwrap_err().message.contains("exited with status 3"));
    for name in ["hangs", "hangs at once"] {
        let hangs = harness(json!({"options": {"habit": name}, "timeout": "2s", "max_turns": 9}));
        let rollouts = roll(&*hangs, 2, 1).unwrap();
        assert!(rollouts.iter().any(Rollout::failed), "{name}");
    }
    let result = roll(&*habit("leaves"), 1, 1);
    assert!(
        result.is_ok_and(|rollouts| rollouts.len() == 2),
        "a response that the program does not read is not a failure"
    );
}

#[test]
fn missing_program_ends_the_stage() {
    let error = roll(&*harness(json!({"command": ["no-such-program-here"]})), 1, 1).unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("no-such-program-here"), "{error}");
}

/// Returns the environment of an agent from `examples/harness`, whose calculator equals this project's on sums.
fn example(program: &str, python: &str) -> Box<dyn Environment> {
    let file = |name: &str| format!("{}/../../examples/harness/{name}", env!("CARGO_MANIFEST_DIR"));
    let shell = program.ends_with(".sh");
    let command = if shell { vec!["sh".to_string(), file(program)] } else { vec![python.into(), file(program)] };
    harness(json!({"command": command, "files": [file("calculator.py")], "max_turns": 3}))
}

fn plays_as_native(program: &str, python: &str, running: usize) {
    let native = plain(roll(&*environment(), 64, 6).unwrap());
    let rollouts = plain(roll(&*example(program, python), running, 6).unwrap());
    for i in plain_sums(&native) {
        assert_eq!(rollouts[i].trajectory.token_ids, native[i].trajectory.token_ids, "{program}");
        assert_eq!(rollouts[i], native[i], "{program}");
    }
}

#[test]
fn an_agent_of_curl_plays_as_the_native_path() {
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there("curl") || !there("jq") {
        eprintln!("SKIPPED: there is no curl or no jq");
        return;
    }
    plays_as_native("agent.sh", "", 4);
}

#[test]
fn agents_of_packages_play_as_the_native_path() {
    let Ok(python) = std::env::var("TRAINYARD_TEST_HARNESSES") else {
        eprintln!("SKIPPED: TRAINYARD_TEST_HARNESSES names no Python that has `openai-agents` and `langgraph`");
        return;
    };
    for program in ["openai_agents.py", "langgraph_agent.py"] {
        plays_as_native(program, &python, 2);
    }
}

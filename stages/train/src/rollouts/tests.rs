use super::*;
use crate::testing::{environment, half_trained, sums, tiny_model};
use trainyard_api::CancelToken;
use trainyard_core::{Chance, ErrorKind, Result};
use trainyard_lm::ModelFolder;
use trainyard_tables::{Problem, Sampling, StopReason};

fn limits(running: usize) -> Limits {
    Limits { turn_tokens: 16, episode_tokens: 96, turns: None, running }
}

fn roll(model: &ModelFolder, problems: &[Problem], jobs: &[Job], limits: Limits, threads: usize) -> Result<Vec<Finished>> {
    let mut generator = model.generator(threads)?;
    let environment = environment();
    let cancel = CancelToken::default();
    let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let mut driver = Driver {
        generator: &mut generator,
        model,
        environment: &*environment,
        limits,
        sampling,
        chance: Chance::new(4),
        name: "t".into(),
        cancel: &cancel,
    };
    driver.run(problems, jobs)
}

fn jobs(problems: usize, samples: u32) -> Vec<Job> {
    let job = |p: usize, s: u32| Job { problem: p, draw: p as u64, group: p as u32, sample: s, start: Start::Root };
    (0..problems).flat_map(|p| (0..samples).map(move |s| job(p, s))).collect()
}

#[test]
fn an_episode_is_the_same_whatever_shares_its_batch() {
    let problems = sums(6, 3, 7);
    let all = jobs(6, 3);
    let together = roll(half_trained(), &problems, &all, limits(64), 2).unwrap();
    assert_eq!(together, roll(half_trained(), &problems, &all, limits(3), 1).unwrap());
    let alone = roll(half_trained(), &problems, &all[7..8], limits(1), 1).unwrap();
    assert_eq!(alone[0], together[7]);
}

#[test]
fn a_record_holds_what_happened() {
    let problems = sums(12, 3, 8);
    let finished = roll(half_trained(), &problems, &jobs(12, 4), limits(64), 2).unwrap();
    let with_call = finished.iter().find(|f| f.trajectory.tool_calls > 0).expect("a half-trained model calls its tool");
    let t = &with_call.trajectory;
    let n = t.token_ids.len();
    assert!(
        [t.loss_mask.len(), t.turn.len(), t.logprobs.as_ref().unwrap().len(), t.entropies.as_ref().unwrap().len()].iter().all(|l| *l == n)
    );
    assert!(t.loss_mask[..t.prompt_tokens as usize].iter().all(|m| !m));
    assert_eq!(t.turns as usize, with_call.turns.len());
    assert_eq!(t.messages.iter().filter(|m| m.role == "assistant").count(), with_call.turns.len());
    for (mask, logprob) in t.loss_mask.iter().zip(t.logprobs.as_ref().unwrap()) {
        assert!(if *mask { *logprob <= 0.0 } else { *logprob == 0.0 });
    }
    for turn in &with_call.turns {
        assert!(t.loss_mask[turn.first..turn.end].iter().all(|m| *m));
    }
    assert!(finished.iter().any(|f| f.correct) && finished.iter().any(|f| !f.correct), "some pass and some fail");
}

#[test]
fn limits_end_episodes() {
    let problems = sums(4, 3, 9);
    let model = tiny_model(32, 2, 3);
    let finished = roll(&model, &problems, &jobs(4, 2), Limits { turn_tokens: 5, ..limits(8) }, 1).unwrap();
    assert!(finished.iter().all(|f| f.turns[0].end - f.turns[0].first <= 5));
    assert!(finished.iter().any(Finished::truncated), "a random model does not end its turn by itself");
    let none = roll(&model, &problems, &jobs(4, 1), Limits { episode_tokens: 2, ..limits(8) }, 1).unwrap();
    assert!(none.iter().all(|f| f.trajectory.stop_reason == StopReason::Length && f.turns.is_empty()));
}

#[test]
fn no_record_is_longer_than_an_episode_may_be() {
    let problems = sums(12, 3, 8);
    let whole = roll(half_trained(), &problems, &jobs(12, 4), limits(64), 2).unwrap();
    let called = whole.iter().filter(|f| f.turns.len() > 1).map(|f| (f.turns[0].end, f.turns[1].first)).collect::<Vec<_>>();
    let (end, next) = called[0];
    // The first observation would end one token too late.
    let tight = roll(half_trained(), &problems, &jobs(12, 4), Limits { episode_tokens: next, ..limits(64) }, 2).unwrap();
    assert!(tight.iter().all(|f| f.trajectory.token_ids.len() <= next));
    let cut = tight.iter().find(|f| f.trajectory.token_ids.len() == end && f.trajectory.stop_reason == StopReason::Length).unwrap();
    assert!(cut.trajectory.tool_calls == 1 && cut.truncated(), "the call is counted, its result is not in the record");
}

#[test]
fn a_continuation_keeps_its_prefix() {
    let problems = sums(8, 3, 10);
    let roots = roll(half_trained(), &problems, &jobs(8, 2), limits(64), 1).unwrap();
    let (at, root) = roots.iter().enumerate().find(|(_, f)| f.turns.len() > 1).expect("some episode has two turns");
    let t = &root.trajectory;
    let first = &root.turns[0];
    let second = &root.turns[1];
    let whole = Start::Prefix {
        turns: vec![t.token_ids[first.first..first.end].to_vec()],
        partial: t.token_ids[second.first..=second.first].to_vec(),
    };
    let partial = Start::Prefix { turns: Vec::new(), partial: t.token_ids[first.first..first.first + 2].to_vec() };
    for (start, kept) in [(whole, second.first + 1), (partial, first.first + 2)] {
        let job = Job { problem: at / 2, draw: 99, group: 0, sample: 0, start };
        let again = roll(half_trained(), &problems, &[job], limits(1), 1).unwrap();
        assert_eq!(again[0].trajectory.token_ids[..kept], t.token_ids[..kept]);
    }
}

#[test]
fn weights_that_are_not_numbers_stop_the_rollouts() {
    let mut model = tiny_model(16, 1, 1);
    let norm = model.weights.get_mut("model.norm.weight").unwrap();
    *norm = (norm.clone() * f64::NAN).unwrap();
    let e = roll(&model, &sums(1, 3, 1), &jobs(1, 1), limits(1), 1).unwrap_err();
    assert_eq!(e.kind, ErrorKind::Data);
    assert!(e.message.contains("sum-0"), "{e}");
}

#[test]
fn a_cancelled_attempt_stops() {
    let model = tiny_model(16, 1, 1);
    let mut generator = model.generator(1).unwrap();
    let environment = environment();
    let cancel = CancelToken::default();
    cancel.cancel();
    let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let mut driver = Driver {
        generator: &mut generator,
        model: &model,
        environment: &*environment,
        limits: limits(4),
        sampling,
        chance: Chance::new(4),
        name: "t".into(),
        cancel: &cancel,
    };
    assert_eq!(driver.run(&sums(2, 3, 1), &jobs(2, 1)).unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn steps_end_at_lines_and_turns() {
    let model = tiny_model(16, 1, 1);
    let tokenizer = model.chat.tokenizer();
    let text = tokenizer.encode("q<|assistant|>a\n\nbc\nd<|end|>r<|assistant|>e<|end|>").unwrap();
    let mask: Vec<bool> = (0..text.len()).map(|t| (2..=9).contains(&t) || t >= 12).collect();
    let turn: Vec<u16> = (0..text.len()).map(|t| u16::from(t >= 10)).collect();
    let n = text.len() as u32;
    assert_eq!(StepKind::Turns.ends(tokenizer, &text, &mask, &turn).unwrap(), [10, n]);
    assert_eq!(StepKind::Lines.ends(tokenizer, &text, &mask, &turn).unwrap(), [4, 8, 10, n]);
}

//! Tests episodes under a template that rewrites earlier turns: each context is a separate sequence in one row.

use super::*;
use crate::contexts::by_context;
use crate::testing::{environment, rewriting, sums};
use trainyard_api::CancelToken;
use trainyard_core::Chance;
use trainyard_learn::Rollout;
use trainyard_lm::ModelFolder;
use trainyard_lm::generate::Generator;
use trainyard_tables::SamplingParams;

const SAMPLING: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };

fn roll(model: &ModelFolder, running: usize) -> (Vec<Rollout>, Generator) {
    let mut generator = model.generator(1).unwrap();
    let problems = sums(8, 3, 7);
    let environment = environment();
    let cancel = CancelToken::default();
    let mut driver = RolloutDriver {
        sampler: &mut generator,
        model,
        environment: &*environment,
        limits: EpisodeLimits {
            turn_tokens: 16,
            episode_tokens: 96,
            running,
            kv_memory: 1 << 30,
            tool_wait: ToolWait::Trajectory,
        },
        sampling: SAMPLING,
        chance: Chance::new(4),
        name: "t".into(),
        cancel: &cancel,
    };
    let jobs: Vec<EpisodeJob> = (0..8).flat_map(|p| (0..3).map(move |s| EpisodeJob::root(p, s))).collect();
    let finished = driver.run(&problems, &jobs).unwrap();
    (finished, generator)
}

#[test]
fn a_rewritten_episode_has_one_sequence_for_each_context() {
    let model = rewriting();
    let (finished, mut generator) = roll(&model, 64);
    assert_eq!(finished, roll(&model, 2).0, "an episode is the same whatever shares its batch");
    // A call without a closing tag loses nothing, so its context continues.
    let of_each_turn = |one: &&Rollout| one.turns.len() == one.trajectory.restarts.len() + 1 && one.turns.len() > 1;
    let rewritten: Vec<&Rollout> = finished.iter().filter(of_each_turn).collect();
    assert!(rewritten.len() > 3, "tools answered");
    for one in &rewritten {
        let t = &one.trajectory;
        for (turn, context) in one.turns.iter().zip(t.contexts()) {
            assert!(context.contains(&turn.first) && turn.end == context.end);
            assert!((context.start..turn.first).all(|i| !t.loss_mask[i]));
        }
        let second = model.chat.tokenizer().decode(t.context_before(one.turns[1].first)).unwrap();
        let agent_messages: Vec<usize> = (0..t.messages.len()).filter(|i| t.messages[*i].role == "assistant").collect();
        assert_eq!(second, model.chat.render(&t.messages[..agent_messages[1]], true, None).unwrap());
        // Recorded log-probabilities equal the policy's under each context.
        let scored = generator.logprobs_of(&t.sequences(), &SAMPLING).unwrap();
        let again: Vec<f32> = scored.into_iter().flat_map(|s| s.logprobs).collect();
        let recorded = t.logprobs.as_ref().unwrap();
        assert!((0..again.len()).filter(|i| t.loss_mask[*i]).all(|i| again[i] == recorded[i]));
    }
    let rows = rewritten.iter().map(|one| &one.trajectory);
    let sequences = by_context(rows.clone(), &[]).0.len();
    assert_eq!(sequences, rows.map(|t| t.restarts.len() + 1).sum::<usize>());
}

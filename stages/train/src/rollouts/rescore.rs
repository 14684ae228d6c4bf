//! Computes log-probabilities of tokens that were not sampled under the row's prompt and policy: demonstrations,
//! answers, and turns sampled with a scaffold.
//!
//! A ratio needs the probability under the policy before the update, given the same context as in the update. The
//! sampler computes this probability with the kernels that sample, so a plainly sampled token would get exactly its
//! recorded value.

use trainyard_core::Result;
use trainyard_learn::{Rollout, TurnSummary};
use trainyard_lm::backend::Sampler;
use trainyard_lm::template::ChatEncoder;
use trainyard_tables::{SamplingParams, Trajectory};

/// Fills log-probabilities and entropies of rollouts whose agent tokens were given or sampled under another prompt.
pub fn rescore_rollouts(sampler: &mut dyn Sampler, sampling: &SamplingParams, rollouts: &mut [Rollout]) -> Result<()> {
    // A prompt without room for a turn may be longer than the model's context.
    let needed = |one: &Rollout| (one.given > 0 || one.scaffolded) && one.trajectory.loss_mask.contains(&true);
    let mut rollouts: Vec<&mut Rollout> = rollouts.iter_mut().filter(|r| needed(r)).collect();
    let sequences: Vec<&[u32]> = rollouts.iter().flat_map(|r| r.trajectory.sequences()).collect();
    let mut scored = sampler.logprobs_of(&sequences, sampling)?.into_iter();
    for rollout in &mut rollouts {
        let (mut logprobs, mut entropies) = (Vec::new(), Vec::new());
        for one in scored.by_ref().take(rollout.trajectory.contexts().len()) {
            logprobs.extend(one.logprobs);
            entropies.extend(one.entropies);
        }
        let mask = &rollout.trajectory.loss_mask;
        let of_mask = |values: Vec<f32>| values.into_iter().zip(mask).map(|(v, m)| if *m { v } else { 0.0 }).collect();
        // Some samplers return no entropies.
        let entropies = (entropies.len() == mask.len()).then(|| of_mask(entropies));
        let logprobs = of_mask(logprobs);
        rollout.set_scores(logprobs, entropies);
    }
    Ok(())
}

/// Episode to score: its row, its turns, and its problem's answer.
pub type GoldEpisode<'a> = (&'a Trajectory, &'a [TurnSummary], &'a str);

/// Computes the mean log-probability of the gold answer as the agent's next turn, at the start of every turn and at
/// temperature 1. Returns `[episode][turn]`.
///
/// Episodes whose answer is empty or cannot be expressed by the tokenizer get empty lists. A list ends before the first
/// turn that begins so late that the answer would not fit.
pub fn gold_logprobs(
    sampler: &mut dyn Sampler,
    chat: &ChatEncoder,
    episodes: &[GoldEpisode<'_>],
) -> Result<Vec<Vec<f64>>> {
    let mut owners = Vec::new();
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    for (e, (row, turns, answer)) in episodes.iter().enumerate() {
        let Ok(mut gold) = chat.tokenizer().encode_plain(answer) else { continue };
        if gold.is_empty() {
            continue;
        }
        gold.push(chat.end_token());
        let before = turns.iter().map(|turn| row.context_before(turn.first));
        for context in before.take_while(|context| context.len() + gold.len() <= sampler.positions()) {
            owners.push((e, gold.len()));
            sequences.push(context.iter().chain(&gold).copied().collect());
        }
    }
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let scored = sampler.logprobs_of(&sequences, &SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 })?;
    let mut lists: Vec<Vec<f64>> = vec![Vec::new(); episodes.len()];
    for ((owner, length), scored) in owners.into_iter().zip(scored) {
        let gold = &scored.logprobs[scored.logprobs.len() - length..];
        lists[owner].push(gold.iter().map(|l| f64::from(*l)).sum::<f64>() / length as f64);
    }
    Ok(lists)
}

//! Logprobs of tokens that were not sampled under the prompt and the policy that the record shows: demonstrations, answers, and
//! turns that were sampled with a scaffold.
//!
//! Why so: a ratio needs the probability under the policy that is updated, given what the update will see. The generator computes it by
//! the kernels that sample, so a token that was sampled plainly would get its recorded bits back. Refuses: nothing.

use super::record::Finished;
use trainyard_core::Result;
use trainyard_learn::TurnSummary;
use trainyard_lm::Generator;
use trainyard_lm::template::Chat;
use trainyard_tables::Sampling;

/// Fills logprobs and entropies of records whose own tokens were given or sampled under another prompt.
pub fn as_recorded(generator: &mut Generator, sampling: &Sampling, finished: &mut [Finished]) -> Result<()> {
    // A prompt that leaves no room for a turn may be longer than what the model can read.
    let needed = |one: &Finished| one.needs_scores() && one.trajectory.loss_mask.contains(&true);
    let places: Vec<usize> = (0..finished.len()).filter(|&i| needed(&finished[i])).collect();
    let sequences: Vec<&[u32]> = places.iter().map(|&i| finished[i].trajectory.token_ids.as_slice()).collect();
    let scored = generator.logprobs_of(&sequences, sampling)?;
    for (&i, scored) in places.iter().zip(scored) {
        let t = &mut finished[i].trajectory;
        let of_mask =
            |values: Vec<f32>| values.into_iter().zip(&t.loss_mask).map(|(v, m)| if *m { v } else { 0.0 }).collect();
        t.logprobs = Some(of_mask(scored.logprobs));
        t.entropies = Some(of_mask(scored.entropies));
    }
    Ok(())
}

/// An episode to score: its tokens, its turns, its problem's answer.
pub type Episode<'a> = (&'a [u32], &'a [TurnSummary], &'a str);

/// Mean logprob of the gold answer as the agent's next turn, at the start of every turn: `[episode][turn]`. Temperature 1.
///
/// An answer that is empty or that the tokenizer cannot express has none: its episodes get empty lists. A turn that begins so late that
/// the answer would not fit has none either, nor have those after it.
pub fn gold_logprobs(generator: &mut Generator, chat: &Chat, episodes: &[Episode<'_>]) -> Result<Vec<Vec<f64>>> {
    let mut owners = Vec::new();
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    for (e, (tokens, turns, answer)) in episodes.iter().enumerate() {
        let Ok(mut gold) = chat.tokenizer().encode_plain(answer) else { continue };
        if gold.is_empty() {
            continue;
        }
        gold.push(chat.end_token());
        for turn in turns.iter().take_while(|t| t.first + gold.len() <= generator.positions()) {
            owners.push((e, gold.len()));
            sequences.push(tokens[..turn.first].iter().chain(&gold).copied().collect());
        }
    }
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let scored = generator.logprobs_of(&sequences, &Sampling { temperature: 1.0, top_p: 1.0, top_k: 0 })?;
    let mut lists: Vec<Vec<f64>> = vec![Vec::new(); episodes.len()];
    for ((owner, length), scored) in owners.into_iter().zip(scored) {
        let gold = &scored.logprobs[scored.logprobs.len() - length..];
        lists[owner].push(gold.iter().map(|l| f64::from(*l)).sum::<f64>() / length as f64);
    }
    Ok(lists)
}

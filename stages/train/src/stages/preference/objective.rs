//! Computes the loss of pairs: sums the log-probabilities of tokens over answers, and converts the slopes of answers to
//! slopes of tokens.

use super::answer_pair::{AnswerPair, loss_tokens};
use super::pair_file::PairSet;
use crate::optimize::sorted_batches;
use trainyard_core::Result;
use trainyard_learn::PreferenceLoss;
use trainyard_learn::preference_losses::{PairAnswer, PairTerm, PreferencePair};
use trainyard_lm::backend::{Outputs, TokenPosition};

/// Sums of log-probabilities of a chosen and a rejected answer, in nats.
pub type Logprobs = [f64; 2];

/// Objective to minimize.
pub struct Objective<'a> {
    /// Loss of a pair.
    pub loss: &'a dyn PreferenceLoss,
    /// Weight of the negative log-probability per token of the chosen answer.
    pub sft_weight: f64,
}

/// Measurements on pairs, as sums; [`PairSums::means`] divides them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairSums {
    pub pairs: f64,
    pub loss: f64,
    /// Negative log-probability per token of the chosen answer, unweighted.
    pub sft_loss: f64,
    pub ordered: f64,
    pub rewards: [f64; 2],
    pub logprobs: Logprobs,
}

impl PairSums {
    fn add(&mut self, term: &PairTerm, sft_loss: f64, weight: f64, logprobs: Logprobs) {
        let rewards = [term.chosen_reward, term.rejected_reward];
        self.pairs += 1.0;
        self.loss += term.loss + weight * sft_loss;
        self.sft_loss += sft_loss;
        self.ordered += f64::from(u8::from(rewards[0] > rewards[1]));
        for side in [0, 1] {
            self.rewards[side] += rewards[side];
            self.logprobs[side] += logprobs[side];
        }
    }
    /// Adds the measurements of another part of the same batch.
    pub fn join(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.loss += other.loss;
        self.sft_loss += other.sft_loss;
        self.ordered += other.ordered;
        for side in [0, 1] {
            self.rewards[side] += other.rewards[side];
            self.logprobs[side] += other.logprobs[side];
        }
    }
    /// Returns means over pairs, by the names of their series.
    pub fn means(&self) -> [(&'static str, f64); 8] {
        let mean = |sum: f64| sum / self.pairs.max(1.0);
        [
            ("loss", mean(self.loss)),
            ("accuracy", mean(self.ordered)),
            ("margin", mean(self.rewards[0] - self.rewards[1])),
            ("chosen_reward", mean(self.rewards[0])),
            ("rejected_reward", mean(self.rewards[1])),
            ("chosen_logprob", mean(self.logprobs[0])),
            ("rejected_logprob", mean(self.logprobs[1])),
            ("sft_loss", mean(self.sft_loss)),
        ]
    }
    /// Returns the mean loss of a pair.
    pub fn loss(&self) -> f64 {
        self.loss / self.pairs.max(1.0)
    }
}

impl Objective<'_> {
    /// Measures pairs, given the outputs at their positions ([`inputs`]) and the reference's sums. Returns the slopes
    /// of `share` times the sum of their losses, one per position.
    pub fn measure(
        &self,
        pairs: &[&AnswerPair],
        outputs: &Outputs,
        references: &[Logprobs],
        share: f64,
    ) -> (PairSums, Vec<f64>) {
        let mut measured = PairSums::default();
        let mut slopes = Vec::with_capacity(outputs.logprobs.len());
        for ((pair, logprobs), reference) in pairs.iter().zip(sums(pairs, &outputs.logprobs)).zip(references) {
            let answer = |side: usize| PairAnswer {
                logprob: logprobs[side],
                reference: reference[side],
                tokens: loss_tokens(&pair.sides[side]),
            };
            let both = PreferencePair { chosen: answer(0), rejected: answer(1) };
            let term = self.loss.value(&both);
            let tokens = both.chosen.tokens as f64;
            measured.add(&term, -logprobs[0] / tokens, self.sft_weight, logprobs);
            let by_side = [term.d_chosen - self.sft_weight / tokens, term.d_rejected];
            for (slope, answer) in by_side.into_iter().zip([both.chosen, both.rejected]) {
                slopes.extend(std::iter::repeat_n(share * slope, answer.tokens));
            }
        }
        (measured, slopes)
    }
}

/// Returns the sequences of pairs, and the positions of their tokens in the loss.
pub fn inputs<'p>(pairs: &[&'p AnswerPair]) -> (Vec<&'p [u32]>, Vec<TokenPosition>) {
    let contexts = || pairs.iter().flat_map(|pair| pair.contexts());
    let masks: Vec<&[bool]> = contexts().map(|context| context.mask.as_slice()).collect();
    (contexts().map(|context| context.tokens.as_slice()).collect(), TokenPosition::from_masks(&masks))
}

/// Sums values at the positions of pairs over each answer.
pub fn sums(pairs: &[&AnswerPair], logprobs: &[f64]) -> Vec<Logprobs> {
    let mut rest = logprobs;
    let mut side = |side: &[_]| -> f64 {
        let (answer, after) = rest.split_at(loss_tokens(side));
        rest = after;
        answer.iter().sum()
    };
    pairs.iter().map(|pair| [side(&pair.sides[0]), side(&pair.sides[1])]).collect()
}

/// Passes pairs in parts of about `budget` tokens to `evaluate`, without gradients. `take` gets the places of a part's
/// pairs in the selection, the pairs and their outputs.
pub fn each_part(
    pairs: &PairSet,
    budget: usize,
    evaluate: impl Fn(&[&[u32]], &[TokenPosition]) -> Result<Outputs>,
    mut take: impl FnMut(&[u32], &[&AnswerPair], &Outputs) -> Result<()>,
) -> Result<()> {
    for part in sorted_batches(&pairs.lengths(), budget).iter() {
        let members = pairs.read(part)?;
        let members: Vec<&AnswerPair> = members.iter().collect();
        let (sequences, places) = inputs(&members);
        take(part, &members, &evaluate(&sequences, &places)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_learn::preference_losses::simpo::Simpo;
    use trainyard_lm::examples::Example;

    /// Returns three pairs of answers with these numbers of tokens after a prompt of two.
    fn pairs() -> Vec<AnswerPair> {
        let example = |n: usize| {
            vec![Example { tokens: (0..2 + n as u32).collect(), mask: [vec![false; 2], vec![true; n]].concat() }]
        };
        let of = |(a, b)| AnswerPair { sides: [example(a), example(b)] };
        [(1, 3), (2, 2), (4, 1)].map(of).to_vec()
    }

    #[test]
    fn places_and_numbers_belong_to_their_answers() {
        let pairs = pairs();
        let all: Vec<&AnswerPair> = pairs.iter().collect();
        let (sequences, places) = inputs(&all);
        assert_eq!((sequences.len(), places.len()), (6, 13));
        let numbers: Vec<f64> = (0..13).map(f64::from).collect();
        assert_eq!(sums(&all, &numbers), [[0.0, 6.0], [9.0, 13.0], [38.0, 12.0]]);
    }

    #[test]
    fn slopes_are_finite_differences_of_the_loss() {
        let pairs = pairs();
        let all: Vec<&AnswerPair> = pairs.iter().collect();
        let logprobs: Vec<f64> = (0..13).map(|i| -0.3 - 0.17 * f64::from(i % 5)).collect();
        let simpo = Simpo::default();
        let objective = Objective { loss: &simpo, sft_weight: 0.7 };
        let at = |logprobs: &[f64]| {
            let outputs = Outputs { logprobs: logprobs.to_vec(), ..Outputs::default() };
            objective.measure(&all, &outputs, &[[0.0; 2]; 3], 1.0 / 3.0)
        };
        let (measured, slopes) = at(&logprobs);
        assert_eq!((measured.pairs, slopes.len()), (3.0, 13));
        for k in 0..13 {
            let moved = |by: f64| {
                let mut moved = logprobs.clone();
                moved[k] += by;
                at(&moved).0.loss()
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((slopes[k] - difference).abs() < 1e-8, "token {k}: {} {difference}", slopes[k]);
        }
        let means: std::collections::BTreeMap<_, _> = measured.means().into();
        assert!((means["margin"] - (means["chosen_reward"] - means["rejected_reward"])).abs() < 1e-12);
        assert!(means["sft_loss"] > 0.0 && means["loss"] > 0.7 * means["sft_loss"]);
    }
}

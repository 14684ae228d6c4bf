//! Computes the distribution that a token is drawn from: logits after temperature, top-k and top-p (in this order, as
//! Hugging Face's `generate` applies them), with log-probabilities and entropy.
//!
//! Temperature 0 takes the highest logit (the lowest id among equals). It records the model's own log-probability and
//! entropy, at temperature 1 and without truncation, because a certain choice has log-probability 0 and entropy 0.
//! Top-k keeps exactly k tokens, top-p the shortest list of most probable tokens that reaches p; equal logits are
//! ordered by id.

use super::kernels::{Isa, all_finite, divide_and_shift, dot_wide, exp_shifted, first_highest, sum_wide};
use std::ops::Range;
use trainyard_core::{Error, Result};
use trainyard_tables::SamplingParams;

/// Memory that distributions reuse.
#[derive(Debug, Default)]
pub struct Buffer {
    scaled: Vec<f32>,
    masses: Vec<f32>,
    order: Vec<u32>,
}

/// A distribution over the vocabulary.
pub struct Distribution<'a> {
    isa: Isa,
    /// Logits over temperature minus the maximum.
    scaled: &'a [f32],
    /// `exp(scaled)`, 0 where truncated.
    masses: &'a [f32],
    total: f64,
    /// The token that temperature 0 takes.
    only: Option<u32>,
    /// Whether no token is truncated: a mass of 0 is then a probability too small for f32.
    untruncated: bool,
}

/// Checks the options. Errors: unless `temperature` is finite and at least 0 and `top_p` is in (0, 1].
pub fn check(sampling: &SamplingParams) -> Result<()> {
    if !(sampling.temperature.is_finite() && sampling.temperature >= 0.0) {
        return Err(Error::invalid(format!("temperature {} is out of range", sampling.temperature))
            .help("use 0 (greedy) or more"));
    }
    if !(sampling.top_p > 0.0 && sampling.top_p <= 1.0) {
        return Err(Error::invalid(format!("top_p {} is outside (0, 1]", sampling.top_p))
            .help("use a value above 0, at most 1 (no truncation)"));
    }
    Ok(())
}

impl<'a> Distribution<'a> {
    /// Creates the distribution. `unused` tokens have probability 0. Returns `None` if a logit is NaN or infinite.
    pub fn new(
        isa: Isa,
        logits: &[f32],
        unused: &[Range<u32>],
        sampling: &SamplingParams,
        buffer: &'a mut Buffer,
    ) -> Option<Self> {
        if !all_finite(isa, logits) {
            return None;
        }
        buffer.scaled.clear();
        buffer.scaled.extend_from_slice(logits);
        for range in unused {
            buffer.scaled[range.start as usize..range.end as usize].fill(f32::NEG_INFINITY);
        }
        let logits = &mut buffer.scaled;
        let best = first_highest(isa, logits);
        let greedy = sampling.temperature == 0.0;
        let temperature = if greedy { 1.0 } else { sampling.temperature as f32 };
        let highest = logits[best] / temperature;
        divide_and_shift(isa, logits, temperature, highest);
        buffer.masses.clear();
        buffer.masses.extend_from_slice(&buffer.scaled);
        exp_shifted(isa, &mut buffer.masses, 0.0);
        if !greedy {
            truncate(isa, sampling, buffer);
        }
        let all = sampling.top_p >= 1.0 && (sampling.top_k == 0 || sampling.top_k as usize >= buffer.scaled.len());
        let untruncated = greedy || all;
        let Buffer { scaled, masses, .. } = buffer;
        Some(Self {
            isa,
            scaled,
            masses,
            total: sum_wide(isa, masses),
            only: greedy.then_some(best as u32),
            untruncated,
        })
    }
    /// Returns the token at `uniform` in [0, 1) of the cumulative distribution in id order.
    pub fn draw(&self, uniform: f64) -> u32 {
        if let Some(only) = self.only {
            return only;
        }
        let target = uniform * self.total;
        let (mut cumulative, mut last) = (0.0, 0);
        for (i, &mass) in self.masses.iter().enumerate().filter(|(_, m)| **m > 0.0) {
            cumulative += f64::from(mass);
            last = i as u32;
            if cumulative > target {
                break;
            }
        }
        last
    }
    /// Returns the natural log of a token's probability: negative infinity where truncated; for greedy decoding the
    /// model's own, at temperature 1.
    pub fn logprob(&self, token: u32) -> f32 {
        if self.untruncated || self.masses[token as usize] > 0.0 {
            (f64::from(self.scaled[token as usize]) - self.total.ln()) as f32
        } else {
            f32::NEG_INFINITY
        }
    }
    /// Returns the most probable tokens that can be drawn, with the log-probabilities of [`Self::logprob`]. Tokens with
    /// equal logits are ordered by id.
    pub fn most_probable(&self, count: usize) -> Vec<(u32, f32)> {
        let possible = |id: &u32| {
            let at = *id as usize;
            self.scaled[at] > f32::NEG_INFINITY && (self.untruncated || self.masses[at] > 0.0)
        };
        let mut ids: Vec<u32> = (0..self.scaled.len() as u32).filter(possible).collect();
        let order = |a: &u32, b: &u32| self.scaled[*b as usize].total_cmp(&self.scaled[*a as usize]).then(a.cmp(b));
        if count < ids.len() {
            ids.select_nth_unstable_by(count, order);
            ids.truncate(count);
        }
        ids.sort_unstable_by(order);
        ids.into_iter().map(|id| (id, self.logprob(id))).collect()
    }
    /// Returns the entropy in nats; for greedy decoding that of the model's own distribution, at temperature 1.
    pub fn entropy(&self) -> f32 {
        let spread = dot_wide(self.isa, self.masses, self.scaled);
        ((self.total.ln() - spread / self.total).max(0.0)) as f32
    }
}

/// Sets the masses outside top-k and top-p to 0.
fn truncate(isa: Isa, sampling: &SamplingParams, buffer: &mut Buffer) {
    let Buffer { scaled, masses, order } = buffer;
    let by_mass = |a: &u32, b: &u32| scaled[*b as usize].total_cmp(&scaled[*a as usize]).then(a.cmp(b));
    let k = sampling.top_k as usize;
    order.clear();
    order.extend(0..masses.len() as u32);
    if k > 0 && k < order.len() {
        order.select_nth_unstable_by(k - 1, by_mass);
        for &dropped in &order[k..] {
            masses[dropped as usize] = 0.0;
        }
        order.truncate(k);
    }
    if sampling.top_p < 1.0 {
        let total = sum_wide(isa, masses);
        // The kept list reaches p without tokens that together hold less than 1 - p, so those need not be sorted.
        let floor = total * (1.0 - sampling.top_p) / masses.len() as f64;
        let (mut kept, small): (Vec<u32>, Vec<u32>) =
            order.iter().partition(|&&i| f64::from(masses[i as usize]) >= floor);
        kept.sort_unstable_by(by_mass);
        let mut cumulative = 0.0;
        let needed = kept.iter().position(|&i| {
            cumulative += f64::from(masses[i as usize]);
            cumulative >= sampling.top_p * total
        });
        let needed = needed.map_or(kept.len(), |last| last + 1);
        for &dropped in kept[needed..].iter().chain(&small) {
            masses[dropped as usize] = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of probabilities 0.1, 0.4, 0.2, 0.3.
    fn logits() -> Vec<f32> {
        [0.1f32, 0.4, 0.2, 0.3].iter().map(|p| p.ln()).collect()
    }

    fn probabilities(logits: &[f32], temperature: f64, top_p: f64, top_k: u32) -> Vec<f32> {
        let mut buffer = Buffer::default();
        let d =
            Distribution::new(Isa::detect(), logits, &[], &SamplingParams { temperature, top_p, top_k }, &mut buffer)
                .unwrap();
        (0..logits.len() as u32).map(|i| d.logprob(i).exp()).collect()
    }

    fn near(a: &[f32], b: &[f32]) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    }

    #[test]
    fn truncation_by_hand() {
        near(&probabilities(&logits(), 1.0, 1.0, 0), &[0.1, 0.4, 0.2, 0.3]);
        near(&probabilities(&logits(), 1.0, 1.0, 2), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
        near(&probabilities(&logits(), 1.0, 0.39, 0), &[0.0, 1.0, 0.0, 0.0]);
        near(&probabilities(&logits(), 1.0, 0.65, 0), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
        near(&probabilities(&logits(), 1.0, 0.75, 0), &[0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]);
        // top-k first: of 4/7 and 3/7 the first alone reaches 0.57.
        near(&probabilities(&logits(), 1.0, 0.57, 2), &[0.0, 1.0, 0.0, 0.0]);
        // Squares at temperature 1/2: 0.01, 0.16, 0.04, 0.09 of 0.30.
        near(&probabilities(&logits(), 0.5, 1.0, 0), &[1.0 / 30.0, 16.0 / 30.0, 4.0 / 30.0, 9.0 / 30.0]);
        // Greedy choices record the model's own probabilities, regardless of truncation.
        near(&probabilities(&logits(), 0.0, 1.0, 0), &[0.1, 0.4, 0.2, 0.3]);
        near(&probabilities(&logits(), 0.0, 0.5, 1), &[0.1, 0.4, 0.2, 0.3]);
    }

    #[test]
    fn the_most_probable_tokens_are_listed_in_order() {
        let of = |temperature: f64, top_k: u32, unused: &[Range<u32>], count: usize| {
            let mut buffer = Buffer::default();
            let sampling = SamplingParams { temperature, top_p: 1.0, top_k };
            let d = Distribution::new(Isa::detect(), &logits(), unused, &sampling, &mut buffer).unwrap();
            let listed = d.most_probable(count);
            assert!(listed.iter().all(|(id, logprob)| *logprob == d.logprob(*id)));
            listed.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(of(1.0, 0, &[], 3), [1, 3, 2]);
        assert_eq!(of(1.0, 0, &[], 9), [1, 3, 2, 0]);
        assert_eq!(of(1.0, 2, &[], 4), [1, 3], "what was cut cannot be drawn");
        assert_eq!(of(0.0, 2, &[], 4), [1, 3, 2, 0], "of greedy choices: the model's own");
        assert_eq!(of(1.0, 0, std::slice::from_ref(&(1..2)), 2), [3, 2]);
    }

    #[test]
    fn temperature_0_takes_the_highest_logit_and_the_lowest_id_among_equals() {
        let of = |logits: &[f32]| {
            let mut buffer = Buffer::default();
            let greedy = SamplingParams { temperature: 0.0, top_p: 1.0, top_k: 0 };
            let d = Distribution::new(Isa::detect(), logits, &[], &greedy, &mut buffer).unwrap();
            ([0.0, 0.5, 0.999].map(|u| d.draw(u)), d.entropy())
        };
        let expected: f32 = [0.1f32, 0.4, 0.2, 0.3].iter().map(|p| -p * p.ln()).sum();
        let (drawn, entropy) = of(&logits());
        assert!(drawn == [1; 3] && (entropy - expected).abs() < 1e-6, "{drawn:?} {entropy}");
        assert_eq!(of(&[1.0; 4]).0, [0; 3]);
    }

    #[test]
    fn only_truncation_makes_a_token_impossible() {
        let of = |top_k: u32| {
            let mut buffer = Buffer::default();
            let sampling = SamplingParams { temperature: 0.5, top_p: 1.0, top_k };
            Distribution::new(Isa::detect(), &[0.0, 100.0], &[], &sampling, &mut buffer).unwrap().logprob(0)
        };
        assert_eq!(
            (of(0), of(2), of(1)),
            (-200.0, -200.0, f32::NEG_INFINITY),
            "its mass is 0 in f32, its logprob is not"
        );
    }

    #[test]
    fn equal_logits_are_cut_by_id() {
        near(&probabilities(&[1.0; 4], 1.0, 1.0, 3), &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]);
        near(&probabilities(&[1.0; 4], 1.0, 0.5, 0), &[0.5, 0.5, 0.0, 0.0]);
        near(&probabilities(&[1.0; 4], 0.0, 1.0, 0), &[0.25; 4]);
    }

    #[test]
    fn draws_follow_the_cumulative_distribution_and_entropy_is_right() {
        let mut buffer = Buffer::default();
        let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
        let d = Distribution::new(Isa::detect(), &logits(), &[], &sampling, &mut buffer).unwrap();
        let drawn: Vec<u32> =
            [0.0, 0.0999, 0.1001, 0.4999, 0.5001, 0.6999, 0.7001, 0.999_999].map(|u| d.draw(u)).to_vec();
        assert_eq!(drawn, [0, 0, 1, 1, 2, 2, 3, 3]);
        let expected: f32 = [0.1f32, 0.4, 0.2, 0.3].iter().map(|p| -p * p.ln()).sum();
        assert!((d.entropy() - expected).abs() < 1e-6);
    }

    #[test]
    fn unused_tokens_do_not_affect_the_distribution() {
        let padded = [50.0, 0.1f32.ln(), 0.4f32.ln(), 60.0, 0.2f32.ln(), 0.3f32.ln(), 60.0];
        let mut buffer = Buffer::default();
        for (temperature, top_p, top_k) in [(1.0, 1.0, 0), (1.0, 1.0, 6), (0.5, 0.75, 0), (1.0, 0.57, 2), (0.0, 1.0, 0)]
        {
            let sampling = SamplingParams { temperature, top_p, top_k };
            let unused = [0..1, 3..4, 6..7];
            let d = Distribution::new(Isa::detect(), &padded, &unused, &sampling, &mut buffer).unwrap();
            let found: Vec<f32> = [1, 2, 4, 5].map(|i| d.logprob(i).exp()).to_vec();
            assert!(d.entropy().is_finite());
            assert_eq!([0, 3, 6].map(|i| d.logprob(i)), [f32::NEG_INFINITY; 3]);
            assert!([0.0, 0.3, 0.6, 0.999_999].iter().all(|u| [1, 2, 4, 5].contains(&d.draw(*u))));
            near(&found, &probabilities(&logits(), temperature, top_p, top_k));
        }
    }

    #[test]
    fn logits_that_are_not_finite_give_no_distribution() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut buffer = Buffer::default();
            assert!(
                Distribution::new(
                    Isa::detect(),
                    &[0.0, bad],
                    &[],
                    &SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
                    &mut buffer
                )
                .is_none()
            );
        }
    }

    #[test]
    fn values_out_of_range_are_errors() {
        let check = |temperature, top_p| check(&SamplingParams { temperature, top_p, top_k: 0 });
        assert!(check(0.0, 1.0).is_ok() && check(1.0, 0.1).is_ok());
        for (t, p) in [(-1.0, 1.0), (f64::NAN, 1.0), (1.0, 0.0), (1.0, 1.5), (1.0, f64::NAN)] {
            assert!(check(t, p).is_err());
        }
    }
}

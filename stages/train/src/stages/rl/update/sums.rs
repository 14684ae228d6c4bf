//! Sums measurements over terms and minibatches, and computes the report from the sums.

use std::collections::BTreeMap;
use trainyard_learn::losses::divergence;
use trainyard_learn::{LossBatch, LossTerm, TermValue, TokenGrid};
use trainyard_lm::optimizer::StepReport;

/// Means over the tokens (or optimizer steps) of an update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateReport {
    /// Values by metric name, with the prefix of the part.
    pub metrics: BTreeMap<String, f64>,
    /// Number of optimizer steps of the update.
    pub optimizer_steps: u64,
}

/// Sums of a running update.
#[derive(Default)]
pub(super) struct Sums {
    /// Sums by the index of the term and the name of its metric.
    terms: BTreeMap<(usize, &'static str), f64>,
    /// k3 estimates of the divergence from the sampling policy, over all tokens.
    divergence: f64,
    tokens: f64,
    entropy: f64,
    loss: f64,
    norm: f64,
    largest_norm: f64,
    /// Ratio of the largest to the smallest token weight, summed over minibatches.
    weight_spread: f64,
    /// Number of tokens in the loss with zero slope from all terms.
    silent: f64,
    /// Size of the gradient by the logits, over all tokens in the loss and over those that come from a demonstration.
    gradient: f64,
    given_gradient: f64,
    steps: u64,
}

impl Sums {
    /// Adds the token weights of a minibatch.
    pub fn weigh(&mut self, weights: &TokenGrid) {
        self.weight_spread += spread_of(weights);
    }
    /// Adds the entropies of the tokens of a micro-batch.
    pub fn sampled(&mut self, entropies: &[f64]) {
        self.tokens += entropies.len() as f64;
        self.entropy += entropies.iter().sum::<f64>();
    }
    /// Counts the tokens of a micro-batch whose slope by log-probability is 0.
    pub fn silent(&mut self, slopes: &[f64]) {
        self.silent += slopes.iter().filter(|s| **s == 0.0).count() as f64;
    }
    /// Adds the size of a token's gradient by its logits, |slope|·(1 − p), where `slope` is by the log-probability of a
    /// token of probability p.
    pub fn learned(&mut self, slope: f64, logprob: f64, given: bool) {
        let size = slope.abs() * (1.0 - logprob.exp());
        self.gradient += size;
        self.given_gradient += if given { size } else { 0.0 };
    }
    /// Adds an optimizer step on a minibatch with this loss.
    pub fn stepped(&mut self, loss: f64, report: Option<StepReport>) {
        self.loss += loss;
        if let Some(report) = report {
            self.norm += report.gradient_norm;
            self.largest_norm = self.largest_norm.max(report.gradient_norm);
            self.steps += 1;
        }
    }
    fn add_term(&mut self, place: usize, name: &'static str, value: f64) {
        *self.terms.entry((place, name)).or_default() += value;
    }

    /// Returns the report, with the prefix of each term before its metrics.
    pub fn report(self, prefixes: &[String]) -> UpdateReport {
        let (steps, tokens) = (self.steps.max(1) as f64, self.tokens.max(1.0));
        let named = |place: usize, name: &str| format!("{}.{name}", prefixes[place]);
        let mut metrics: BTreeMap<String, f64> =
            self.terms.iter().map(|((place, name), sum)| (named(*place, name), sum / tokens)).collect();
        metrics.insert("loss".into(), self.loss / steps);
        metrics.insert("grad_norm".into(), self.norm / steps);
        metrics.insert("grad_norm_max".into(), self.largest_norm);
        metrics.insert("policy_entropy".into(), self.entropy / tokens);
        metrics.insert("silent_tokens".into(), self.silent / tokens);
        let given = if self.gradient > 0.0 { self.given_gradient / self.gradient } else { 0.0 };
        metrics.insert("given_gradient_share".into(), given);
        metrics.insert("token_weight_spread".into(), self.weight_spread / steps);
        metrics.insert("kl".into(), self.divergence / tokens);
        metrics.insert("optimizer_steps".into(), self.steps as f64);
        UpdateReport { metrics, optimizer_steps: self.steps }
    }
}

/// Sum of all loss terms on a batch.
pub(super) struct LossTotal {
    pub loss: f64,
    /// Derivatives by log-probability, entropy and value, `[sequence][token]`.
    pub logprobs: TokenGrid,
    pub entropies: Option<TokenGrid>,
    pub values: Option<TokenGrid>,
    /// Sums of the terms that are not in [`Sums`] yet.
    sums: BTreeMap<(usize, &'static str), f64>,
    divergence: f64,
}

impl LossTotal {
    /// Evaluates all terms on a batch and adds their sums to `sums`.
    pub fn of(terms: &[Box<dyn LossTerm>], batch: &LossBatch, sums: &mut Sums) -> Self {
        let mut total = Self {
            loss: 0.0,
            logprobs: batch.zeros(),
            entropies: None,
            values: None,
            sums: BTreeMap::new(),
            divergence: 0.0,
        };
        sums.divergence += divergence(batch);
        for (place, term) in terms.iter().enumerate() {
            let TermValue { loss, d_logprobs, d_entropies, d_values, sums: term_sums } = term.value(batch);
            total.loss += loss;
            add(&mut total.logprobs, &d_logprobs);
            if let Some(slopes) = d_entropies {
                add(total.entropies.get_or_insert_with(|| batch.zeros()), &slopes);
            }
            if let Some(slopes) = d_values {
                add(total.values.get_or_insert_with(|| batch.zeros()), &slopes);
            }
            for (name, value) in term_sums {
                sums.add_term(place, name, value);
            }
        }
        total
    }
    /// Evaluates all terms on a batch; their sums stay in the result until [`LossTotal::add_to`].
    pub fn separate(terms: &[Box<dyn LossTerm>], batch: &LossBatch) -> Self {
        let mut sums = Sums::default();
        let mut total = Self::of(terms, batch, &mut sums);
        total.sums = sums.terms;
        total.divergence = sums.divergence;
        total
    }
    /// Returns the rows of some members. Their loss is 0, because the loss of the whole batch is counted once.
    pub fn rows(&self, members: &[usize]) -> Self {
        let rows = |grid: &TokenGrid| -> TokenGrid { members.iter().map(|&k| grid[k].clone()).collect() };
        Self {
            loss: 0.0,
            logprobs: rows(&self.logprobs),
            entropies: self.entropies.as_ref().map(rows),
            values: self.values.as_ref().map(rows),
            sums: BTreeMap::new(),
            divergence: 0.0,
        }
    }
    pub fn add_to(&self, sums: &mut Sums) {
        sums.divergence += self.divergence;
        for ((place, name), value) in &self.sums {
            sums.add_term(*place, name, *value);
        }
    }
}

/// Returns the ratio of the largest to the smallest weight of a token in the loss.
fn spread_of(weights: &TokenGrid) -> f64 {
    let (low, high) = weights
        .iter()
        .flatten()
        .filter(|w| **w > 0.0)
        .fold((f64::MAX, 0.0), |(l, h): (f64, f64), w| (l.min(*w), h.max(*w)));
    if high > 0.0 { high / low } else { 1.0 }
}

fn add(sum: &mut TokenGrid, term: &TokenGrid) {
    for (s, t) in sum.iter_mut().flatten().zip(term.iter().flatten()) {
        *s += t;
    }
}

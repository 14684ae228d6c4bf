//! Counts the requests and tokens of models, and computes their cost.

use crate::options::Price;
use trainyard_core::MetricInfo;

/// Usage of one part. Except for `sent`, it does not depend on which responses were stored before.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChatUsage {
    /// Distinct requests with a response, in each round.
    pub requests: u64,
    /// Number of these requests that were sent to a server.
    pub sent: u64,
    /// Tokens of the prompts, as servers count them.
    pub prompt_tokens: u64,
    /// Tokens of the responses, as servers count them.
    pub completion_tokens: u64,
    /// Price of tokens, if the options set it.
    pub price: Option<Price>,
}

impl ChatUsage {
    /// Returns the cost of the tokens, or `None` if the options set no price.
    pub fn cost(&self) -> Option<f64> {
        self.price.map(|price| price.of(self.prompt_tokens, self.completion_tokens))
    }
    /// Returns the values of [`metrics`]; the cost only with a price.
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        let counts = [
            ("requests", self.requests as f64),
            ("prompt_tokens", self.prompt_tokens as f64),
            ("completion_tokens", self.completion_tokens as f64),
        ];
        counts.into_iter().chain(self.cost().map(|cost| ("cost", cost))).collect()
    }
    /// Returns the usage since an earlier state of the same counters.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            sent: self.sent - earlier.sent,
            prompt_tokens: self.prompt_tokens - earlier.prompt_tokens,
            completion_tokens: self.completion_tokens - earlier.completion_tokens,
            price: self.price,
        }
    }
}

impl Price {
    /// Returns the cost of this many tokens of prompts and of responses.
    pub(crate) fn of(&self, prompt: u64, answer: u64) -> f64 {
        (prompt as f64 * self.input + answer as f64 * self.output) / 1e6
    }
}

/// Returns the metrics of parts that use models, reported after the first request.
pub fn metrics() -> Vec<MetricInfo> {
    let all = [
        MetricInfo::new("requests", "requests", "Distinct requests to models at endpoints."),
        MetricInfo::new("prompt_tokens", "tokens", "Tokens of their prompts."),
        MetricInfo::new("completion_tokens", "tokens", "Tokens of their responses."),
        MetricInfo::new(
            "cost",
            "price",
            "Cost of these tokens at the option `price`, including those of stored responses.",
        ),
    ];
    all.map(|metric| metric.lower().optional()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_tokens_cost_their_price() {
        let price = Some(Price { input: 3.0, output: 15.0 });
        let tally = ChatUsage { requests: 2, sent: 1, prompt_tokens: 1_000_000, completion_tokens: 200_000, price };
        assert_eq!(tally.cost(), Some(6.0));
        assert_eq!(tally.values().last(), Some(&("cost", 6.0)));
        assert_eq!(tally.since(&tally), ChatUsage { price, ..ChatUsage::default() });
        assert_eq!(ChatUsage::default().cost(), None);
        let declared: Vec<String> = metrics().into_iter().map(|metric| metric.name.to_string()).collect();
        assert_eq!(declared, tally.values().iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}

//! Enforces the spend limit of a chat client. Amounts reserved for requests in flight count as spent.
//!
//! A token has at least one byte, so the bytes of a request bound the tokens of its prompt; the token limit bounds
//! those of the response. A request whose maximum cost could exceed the limit waits for the requests in flight, which
//! usually cost less than their reserved amounts. If no request is in flight, it is rejected.

use crate::options::{ChatOptions, Price};
use trainyard_core::{Error, Result};

pub(crate) struct Budget {
    price: Option<Price>,
    limit: Option<f64>,
    /// Maximum tokens of a response.
    response: u64,
    spent: f64,
    reserved: f64,
}

impl Budget {
    pub fn new(options: &ChatOptions) -> Self {
        let response = options.limit().unwrap_or(0);
        Self { price: options.price, limit: options.spend_limit, response, spent: 0.0, reserved: 0.0 }
    }
    /// Reserves the maximum cost of a request of `bytes` bytes and returns the reserved amount, or `None` if the
    /// request must wait until one of the requests in flight has settled.
    ///
    /// Errors: invalid, if the request could exceed the limit while no request is in flight.
    pub fn reserve(&mut self, bytes: usize, in_flight: bool) -> Result<Option<f64>> {
        let max_cost = self.price.map_or(0.0, |price| price.of(bytes as u64, self.response));
        if let Some(limit) = self.limit
            && self.spent + self.reserved + max_cost > limit
        {
            let spent = self.spent;
            return if in_flight { Ok(None) } else { Err(limit_exceeded(spent, max_cost, limit)) };
        }
        self.reserved += max_cost;
        Ok(Some(max_cost))
    }
    /// Replaces a reserved amount by the cost of the response's tokens. Without token counts (`None`), the reserved
    /// amount counts as spent.
    pub fn settle(&mut self, reserved: f64, tokens: Option<(u64, u64)>) {
        self.release(reserved);
        match tokens {
            Some(tokens) => self.record_stored(tokens),
            None => self.spent += reserved,
        }
    }
    /// Releases the reserved amount of a request that got no response.
    pub fn release(&mut self, reserved: f64) {
        self.reserved = (self.reserved - reserved).max(0.0);
    }
    /// Adds the cost of a response that the store already held.
    pub fn record_stored(&mut self, (prompt, response): (u64, u64)) {
        self.spent += self.price.map_or(0.0, |price| price.of(prompt, response));
    }
}

fn limit_exceeded(spent: f64, max_cost: f64, limit: f64) -> Error {
    Error::invalid(format!(
        "the responses so far cost {spent:.4} and the next one may cost {max_cost:.4}, but `spend_limit` is {limit}"
    ))
    .help("raise `spend_limit`, or send fewer requests; stored responses are not paid for again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: f64) -> Budget {
        let price = Some(Price { input: 1.0, output: 10.0 });
        let options = ChatOptions { price, spend_limit: Some(limit), ..ChatOptions::new("http://h", "m") };
        Budget::new(&ChatOptions { max_tokens: Some(100), ..options })
    }

    #[test]
    fn spend_limit_is_never_exceeded() {
        // A request of 1,000 bytes costs at most 2,000 millionths.
        let mut budget = budget(0.0049);
        let first = budget.reserve(1000, false).unwrap().unwrap();
        let second = budget.reserve(1000, true).unwrap().unwrap();
        assert_eq!(
            (first, budget.reserve(1000, true).unwrap()),
            (0.002, None),
            "the requests in flight may cost that much"
        );
        budget.settle(first, Some((200, 50)));
        let third = budget.reserve(1000, true).unwrap().unwrap();
        budget.settle(second, None);
        budget.release(third);
        budget.record_stored((300, 0));
        let error = budget.reserve(1000, false).unwrap_err();
        assert!(error.message.contains("cost 0.0030") && error.message.contains("may cost 0.0020"), "{error}");
        assert!(budget.reserve(800, false).unwrap().is_some());
    }

    #[test]
    fn no_request_waits_without_limit() {
        let mut budget = Budget::new(&ChatOptions::new("http://h", "m"));
        assert_eq!(budget.reserve(1 << 30, false).unwrap(), Some(0.0));
    }
}

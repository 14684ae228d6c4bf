//! Defines the options of a model at an endpoint, as a workflow file sets them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::units::parse_duration;
use trainyard_core::{OptionProblem, SecretName};
use trainyard_http::{BaseUrl, RequestLimits};

/// Maximum bytes of one response.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Fields of a request that workflow files may not set.
const RESERVED_FIELDS: [&str; 8] =
    ["messages", "model", "n", "response_format", "stream", "stream_options", "tools", "seed"];
/// Fields of a request that limit the tokens of the response.
const LIMIT_FIELDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// A model at an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub struct ChatOptions {
    /// Address of a server with OpenAI's interface (`/v1/chat/completions`), such as `http://127.0.0.1:8080`.
    pub endpoint: String,
    /// Name of the model on the server.
    pub model: String,
    /// Other names of the model in the server's answers; any further name is an error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served_as: Vec<String>,
    /// API key that the server requires, by its name in the site file: `{secret: NAME}`; null = no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretName>,
    /// Name of the service under which answers are stored, in place of the address: one service at several addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Sampling temperature; null = the default of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub temperature: Option<f64>,
    /// Maximum tokens of an answer; null = no limit is sent.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Seed for the server, plus the number of the draw; null = no seed is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// How requests specify the form of an answer.
    #[serde(skip_serializing_if = "Structure::is_default")]
    pub structure: Structure,
    /// Further fields of every request, such as `{top_p: 0.9}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Value>,
    /// Maximum requests in flight; more wait.
    #[schemars(range(min = 1, max = 4096))]
    pub concurrency: usize,
    /// Maximum requests begun in a minute; null = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Maximum average tokens of prompts and answers in a minute; null = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u32>,
    /// Price of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Maximum total cost of all answers of this part, including stored ones: a request that could exceed it is not
    /// sent, and the stage ends. Requires `price` and `max_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub spend_limit: Option<f64>,
    /// Timeout of one attempt of a request.
    pub timeout: String,
    /// Attempts of a request, including the first, while the server is unreachable or overloaded.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: u32,
}

/// Price of a million tokens, in any currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Price {
    /// Price of a million prompt tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Price of a million answer tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
}

/// Specification of an answer's form in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Structure {
    /// By `response_format` with a JSON Schema.
    #[default]
    JsonSchema,
    /// By `response_format: {type: json_object}`; the prompt describes the rest.
    JsonObject,
    /// By the prompt alone: the first JSON object of the answer counts.
    Text,
}

impl Structure {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            model: String::new(),
            served_as: Vec::new(),
            api_key: None,
            service: None,
            temperature: None,
            max_tokens: Some(1024),
            seed: None,
            structure: Structure::default(),
            extra: BTreeMap::new(),
            concurrency: 16,
            requests_per_minute: None,
            tokens_per_minute: None,
            price: None,
            spend_limit: None,
            timeout: "5m".into(),
            attempts: 5,
        }
    }
}

impl ChatOptions {
    /// Creates the options of a model at an address, with all defaults.
    pub fn new(endpoint: impl Into<String>, model: impl Into<String>) -> Self {
        Self { endpoint: endpoint.into(), model: model.into(), ..Self::default() }
    }
    /// Returns the maximum tokens of a response, from `max_tokens` or a field of `extra`.
    pub fn limit(&self) -> Option<u64> {
        let limit = LIMIT_FIELDS.iter().filter_map(|name| self.extra.get(*name)?.as_u64()).max();
        limit.or(self.max_tokens.map(u64::from))
    }
    /// Returns the limits of the HTTP requests.
    pub(crate) fn limits(&self) -> RequestLimits {
        let timeout = parse_duration(&self.timeout).unwrap_or(Duration::from_secs(300));
        RequestLimits {
            requests: self.concurrency,
            attempts: self.attempts,
            timeout,
            response_bytes: MAX_RESPONSE_BYTES,
        }
    }
    /// Returns all problems that types cannot express; pointers are relative to these options.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.endpoint.is_empty() {
            let problem = OptionProblem::new("/endpoint", "the address of the server is missing");
            problems.push(problem.help("write `model: {endpoint: URL, model: NAME}`"));
        } else if let Err(e) = BaseUrl::read(&self.endpoint) {
            let problem = OptionProblem::new("/endpoint", e.message);
            problems.push(e.help.into_iter().fold(problem, OptionProblem::help));
        }
        if self.model.is_empty() {
            let problem = OptionProblem::new("/model", "the name of the model is missing");
            problems.push(problem.help("set the name that `/v1/models` of the server lists"));
        }
        match parse_duration(&self.timeout) {
            Err(reason) => problems.push(OptionProblem::new("/timeout", reason)),
            Ok(Duration::ZERO) => {
                let problem = OptionProblem::new("/timeout", "the timeout is zero");
                problems.push(problem.help("write for example `5m`"));
            }
            Ok(_) => {}
        }
        problems.extend(OptionProblem::out_of_range("/concurrency", self.concurrency, 1..=4096));
        problems.extend(OptionProblem::out_of_range("/attempts", self.attempts, 1..=100));
        let counts = [
            ("/max_tokens", self.max_tokens),
            ("/requests_per_minute", self.requests_per_minute),
            ("/tokens_per_minute", self.tokens_per_minute),
        ];
        problems.extend(counts.into_iter().filter_map(|(at, n)| OptionProblem::out_of_range(at, n?, 1..)));
        let price = self.price.map(|price| [("/price/input", price.input), ("/price/output", price.output)]);
        let amounts = [("/temperature", self.temperature), ("/spend_limit", self.spend_limit)];
        let amounts = amounts.into_iter().filter_map(|(at, amount)| Some((at, amount?)));
        for (at, amount) in amounts.chain(price.into_iter().flatten()) {
            problems.extend(OptionProblem::out_of_range(at, amount, 0.0..).or(OptionProblem::not_finite(at, amount)));
        }
        for name in self.extra.keys().filter(|name| RESERVED_FIELDS.contains(&name.as_str())) {
            let problem = OptionProblem::new(format!("/extra/{name}"), format!("`{name}` is set by the stage"));
            problems.push(problem.help("remove it, or use the option for it"));
        }
        problems.extend(self.spend_limit_problem());
        problems
    }
    /// Returns the problem of a spend limit that cannot be checked, for lack of a price or of a token limit.
    fn spend_limit_problem(&self) -> Option<OptionProblem> {
        self.spend_limit?;
        let (message, help) = match (self.price, self.limit()) {
            (None, _) => ("`spend_limit` requires the price of tokens", "add `price: {input: …, output: …}`"),
            (_, None) => ("`spend_limit` requires a token limit", "set `max_tokens`"),
            _ => return None,
        };
        Some(OptionProblem::new("/spend_limit", message).help(help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(more: Value) -> Vec<String> {
        let mut options = json!({"endpoint": "http://127.0.0.1:1", "model": "m"});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let options: ChatOptions = serde_json::from_value(options).unwrap();
        options.problems().into_iter().map(|problem| problem.pointer).collect()
    }

    #[test]
    fn defaults_are_valid_and_problems_have_pointers() {
        assert!(problems(json!({})).is_empty());
        assert_eq!(problems(json!({"endpoint": "http://me:pw@h"})), ["/endpoint"]);
        assert_eq!(
            problems(json!({"model": "", "timeout": "0s", "concurrency": 0})),
            ["/model", "/timeout", "/concurrency"]
        );
        assert_eq!(problems(json!({"extra": {"messages": []}, "max_tokens": 0})), ["/max_tokens", "/extra/messages"]);
        assert_eq!(
            problems(json!({"temperature": -1, "price": {"input": -1, "output": 0}})),
            ["/temperature", "/price/input"]
        );
    }

    #[test]
    fn spend_limit_requires_price_and_token_limit() {
        let price = json!({"input": 1, "output": 2});
        assert_eq!(problems(json!({"spend_limit": 1})), ["/spend_limit"]);
        assert_eq!(problems(json!({"spend_limit": 1, "price": price, "max_tokens": null})), ["/spend_limit"]);
        assert!(problems(json!({"spend_limit": 1, "price": price})).is_empty());
        let valid =
            json!({"spend_limit": 1, "price": price, "max_tokens": null, "extra": {"max_completion_tokens": 9}});
        assert!(problems(valid).is_empty());
    }

    #[test]
    fn defaults_are_omitted() {
        let complete = serde_json::to_value(ChatOptions::new("http://h", "m")).unwrap();
        assert_eq!(
            complete,
            json!({"endpoint": "http://h", "model": "m", "max_tokens": 1024, "concurrency": 16, "timeout": "5m",
                "attempts": 5})
        );
    }
}

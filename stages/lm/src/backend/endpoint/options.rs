//! Defines the options of the backend `endpoint` in a workflow file.

use super::dialect::InferenceServerKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use trainyard_api::family::PartOptions;
use trainyard_core::units::parse_duration;
use trainyard_core::{OptionProblem, SecretName};
use trainyard_http::{BaseUrl, RequestLimits};

/// Maximum bytes of a response: a turn of a hundred thousand tokens with its log-probabilities is smaller.
const MAX_RESPONSE_BYTES: usize = 256 << 20;

/// Options of the backend `endpoint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Address of the server, such as `http://gpu-7:8000`.
    pub url: String,
    /// Kind of server.
    pub server: InferenceServerKind,
    /// Name of the model on the server, or of an adapter that it has loaded; null = the only one that it lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// API key that the server requires, by its name in the site file: `{secret: NAME}`; null = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretName>,
    /// Transfer of the stage's weights to the server; null = the server has them, and they do not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightTransferOptions>,
    /// Maximum requests in flight; further ones wait.
    #[serde(default = "requests")]
    #[schemars(range(min = 1))]
    pub requests: usize,
    /// Timeout of one request, such as `10m`: a turn of the agent, or loading weights.
    #[serde(default = "timeout")]
    pub timeout: String,
    /// Attempts of a request, including the first, while the server is unreachable or overloaded.
    #[serde(default = "attempts")]
    #[schemars(range(min = 1, max = 100))]
    pub attempts: u32,
}

/// A folder that both sides can read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightTransferOptions {
    /// Absolute path of a folder that the stage can write to; every version of the weights gets a folder in it.
    pub folder: String,
    /// Path of the same folder on the server; null = the same path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_as: Option<String>,
}

fn requests() -> usize {
    64
}
fn timeout() -> String {
    "10m".into()
}
fn attempts() -> u32 {
    5
}

impl Endpoint {
    /// Returns the limits of requests.
    pub fn limits(&self) -> RequestLimits {
        let timeout = parse_duration(&self.timeout).unwrap_or(Duration::from_secs(600));
        RequestLimits { requests: self.requests, attempts: self.attempts, timeout, response_bytes: MAX_RESPONSE_BYTES }
    }
}

const DOC: &str = "\
A server with the stage's model: vLLM, SGLang or llama.cpp, by requests of token ids. It samples and does not train: \
for `evaluate`, and for the rollouts of `rl` (`rollout: {backend: {kind: endpoint, …}}`), where `weights` names a \
folder that the server can read.\n\n\
When a stage starts it compares the server with the model folder: the served model's name, the token ids of a text, \
the length of the context, and that ids and log-probabilities come back. A server that differs is rejected.\n\n\
Log-probabilities must be those of the distribution that was sampled from. vLLM gives the model's own unless it was \
started with `--logprobs-mode processed_logprobs`, SGLang those after the temperature and before top-k and top-p, \
llama.cpp either. Sampling options whose log-probabilities a server does not return are rejected.\n\n\
The backend has no entropies, since servers return only the most probable tokens. Parts that read entropies of \
rollouts are rejected. Seeds are sent to the server, but equal runs need not give equal tokens.\n\n\
The API key is in the site file: `api_key: {secret: NAME}`.";

impl PartOptions for Endpoint {
    const KIND: &'static str = "endpoint";
    const SUMMARY: &'static str = "samples from a model on a server: vLLM, SGLang or llama.cpp";
    const DOC: &'static str = DOC;

    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if let Err(e) = BaseUrl::read(&self.url) {
            let problem = OptionProblem::new("/url", e.message);
            problems.push(e.help.into_iter().fold(problem, OptionProblem::help));
        }
        if let Err(reason) = parse_duration(&self.timeout) {
            problems.push(OptionProblem::new("/timeout", reason));
        } else if parse_duration(&self.timeout) == Ok(Duration::ZERO) {
            problems.push(OptionProblem::new("/timeout", "a timeout of 0 fails every request").help("use `10m`"));
        }
        problems.extend(OptionProblem::out_of_range("/requests", self.requests, 1..));
        problems.extend(OptionProblem::out_of_range("/attempts", self.attempts, 1..=100));
        if let Some(weights) = &self.weights {
            problems.extend(self.problems_with_weights(weights));
        }
        problems
    }
}

impl Endpoint {
    fn problems_with_weights(&self, weights: &WeightTransferOptions) -> Vec<OptionProblem> {
        if self.server == InferenceServerKind::LlamaCpp {
            let problem = OptionProblem::new("/weights", "a llama.cpp server cannot load other weights while it runs");
            return vec![problem.help("leave `weights` out, or use `server: vllm` or `server: sglang`")];
        }
        let places = [("/weights/folder", Some(&weights.folder)), ("/weights/seen_as", weights.seen_as.as_ref())];
        let relative = |(at, path): (&str, Option<&String>)| {
            let path = path.filter(|path| !Path::new(path).is_absolute())?;
            let problem = OptionProblem::new(at, format!("`{path}` is not an absolute path"));
            Some(problem.help("use a folder that the stage and the server share, such as `/shared/weights`"))
        };
        places.into_iter().filter_map(relative).collect()
    }
}

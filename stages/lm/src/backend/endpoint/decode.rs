//! Samples turns by HTTP, one request per turn, and records the returned tokens like locally drawn ones.
//!
//! The server keeps no state of a sequence except in its own cache. Forks, observations and resumed turns are therefore
//! requests over the tokens so far. Tokens that a server returns after a stop token or beyond a limit are dropped.

use super::dialect::{Dialect, EndpointTurnOutput, EndpointTurnRequest, LogprobsMode, ServedModelName};
use super::options::Endpoint;
use super::weight_lock::{WeightLock, WeightReadPermit};
use super::weight_publisher::WeightPublisher;
use crate::backend::{Decode, Parameters};
use crate::generate::{Cache, SequenceEntry, SequenceFinish, SequenceId, SequenceLogprobs, SequenceTable};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_http::{HttpClient, HttpRequestId};
use trainyard_tables::SamplingParams;

/// Time that a step waits for a response, so that callers can poll tools between steps.
const WAIT: Duration = Duration::from_millis(20);
/// Consecutive responses without a token after which a sequence counts as stuck.
const MAX_EMPTY_RESPONSES: u32 = 3;

/// State of a sequence: its request in flight.
#[derive(Default)]
pub struct InFlightState {
    request: Option<(HttpRequestId, usize)>,
    empty_responses: u32,
}

impl Cache for InFlightState {
    fn prefix(&self, _length: usize) -> Self {
        Self::default()
    }
}

/// Samples by requests to a server.
pub struct EndpointDecode {
    pub client: HttpClient,
    pub dialect: &'static dyn Dialect,
    pub name: ServedModelName,
    pub logprobs_mode: LogprobsMode,
    pub weight_lock: Arc<WeightLock>,
    pub publisher: Option<WeightPublisher>,
    /// Sequence of each request, and the version of the weights that computes the response.
    pub in_flight: BTreeMap<HttpRequestId, (SequenceId, u32)>,
}

impl EndpointDecode {
    /// Sends a request for every running sequence without one in flight.
    fn send(&mut self, table: &mut SequenceTable<InFlightState>) -> Result<()> {
        let positions = table.positions();
        for (id, entry) in table.running() {
            if entry.is_full() || entry.cache.request.is_some() {
                continue;
            }
            expect_answerable(self.dialect, self.logprobs_mode, &entry.sampling)?;
            let length = entry.state.token_ids.len();
            let remaining = entry.max_new_tokens.saturating_sub(entry.state.sampled_in_turn().len());
            let max_tokens = remaining.min(positions.saturating_sub(length));
            if max_tokens == 0 {
                entry.state.finish = Some(SequenceFinish::Length);
                continue;
            }
            let Some(permit) = self.weight_lock.try_acquire() else { return Ok(()) };
            let version = permit.loaded.version;
            entry.state.computed_by(version, entry.cached);
            let name = self.served_name(&permit);
            let request = EndpointTurnRequest {
                model: &name,
                tokens: &entry.state.token_ids,
                sampling: entry.sampling,
                stop: &entry.stop_tokens,
                max_tokens,
                seed: entry.seed(),
                top: 1,
            };
            let request_id = self.client.send(self.dialect.turn_request(&request), permit);
            entry.cached = length;
            entry.cache.request = Some((request_id, length));
            self.in_flight.insert(request_id, (id, version));
        }
        Ok(())
    }
    fn served_name(&self, permit: &WeightReadPermit) -> ServedModelName {
        let adapter = permit.loaded.adapter.clone().or_else(|| self.name.adapter.clone());
        ServedModelName { adapter, ..self.name.clone() }
    }
    /// Cancels the requests of removed sequences.
    fn prune(&mut self, table: &mut SequenceTable<InFlightState>) {
        let client = &mut self.client;
        self.in_flight.retain(|request_id, (id, _)| {
            let exists = table.find(*id).is_some();
            if !exists {
                client.cancel(*request_id);
            }
            exists
        });
    }
    fn parse_turn(&self, response: Result<serde_json::Value, trainyard_http::HttpFault>) -> Result<EndpointTurnOutput> {
        self.dialect.parse_turn(&response?)
    }
}

/// Records the tokens of a response, up to the end of the turn.
fn record_turn(
    entry: &mut SequenceEntry<InFlightState>,
    output: EndpointTurnOutput,
    version: u32,
    positions: usize,
) -> Result<()> {
    let EndpointTurnOutput { tokens, logprobs, top: _ } = output;
    entry.cache.empty_responses = if tokens.is_empty() { entry.cache.empty_responses + 1 } else { 0 };
    if entry.cache.empty_responses >= MAX_EMPTY_RESPONSES {
        return Err(Error::data("the server keeps returning responses without a token").help("check the server's log"));
    }
    for (token, logprob) in tokens.into_iter().zip(logprobs) {
        // The table keeps no entropies for these sequences, so the number is unused.
        entry.record_token(token, logprob, 0.0, version, positions);
        if entry.state.finish.is_some() {
            break;
        }
    }
    Ok(())
}

impl Decode for EndpointDecode {
    type Cache = InFlightState;

    fn step(&mut self, table: &mut SequenceTable<InFlightState>) -> Result<()> {
        self.prune(table);
        self.send(table)?;
        let positions = table.positions();
        let mut wait = if table.running_count() == 0 { Duration::ZERO } else { WAIT };
        while let Some((request_id, response)) = self.client.next(wait) {
            wait = Duration::ZERO;
            let Some((id, version)) = self.in_flight.remove(&request_id) else { continue };
            let Some(entry) = table.find(id) else { continue };
            let sent = match entry.cache.request.take() {
                Some((in_flight, sent)) if in_flight == request_id => sent,
                other => {
                    entry.cache.request = other;
                    continue;
                }
            };
            let output = self.parse_turn(response)?;
            // The turn ended while the request was in flight, and may be open again: the next step sends a new request.
            if entry.state.finish.is_some() || entry.state.token_ids.len() != sent {
                continue;
            }
            table.check_tokens(&output.tokens).map_err(|e| e.at("the server's response"))?;
            record_turn(table.entry_mut(id), output, version, positions)?;
        }
        Ok(())
    }
    fn cache_bytes(&self, _tokens: usize) -> u64 {
        0
    }
    fn expect_language_head(&self) -> Result<()> {
        Ok(())
    }
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()> {
        let Some(publisher) = &self.publisher else {
            return Err(Error::invalid("the endpoint has no option `weights`, so the server cannot load new weights")
                .help("set `weights: {folder: /shared/weights}` to a folder that the stage and the server share"));
        };
        self.weight_lock.update(|loaded| {
            if loaded.from_stage && loaded.version == version {
                return Ok(loaded.clone());
            }
            publisher.publish(&self.client, weights, version, loaded)
        })
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        let scored: Vec<&[u32]> = sequences.iter().copied().filter(|sequence| sequence.len() > 1).collect();
        let mut numbers = Vec::new();
        if !scored.is_empty() {
            expect_plain(sampling)?;
            let permit = self.weight_lock.acquire();
            let name = self.served_name(&permit);
            let requests: Option<Vec<_>> =
                scored.iter().map(|sequence| self.dialect.prompt_logprobs_request(&name, sequence)).collect();
            let requests = requests.ok_or_else(|| {
                Error::invalid(format!("a {} server does not score given tokens", self.dialect.name()))
                    .help("use `server: vllm` or `server: sglang`")
            })?;
            for (sequence, response) in scored.iter().zip(self.client.request_all(requests)) {
                numbers.push(self.dialect.parse_prompt_logprobs(&response?, sequence)?);
            }
        }
        let mut numbers = numbers.into_iter();
        let one = |sequence: &&[u32]| {
            let logprobs = if sequence.len() > 1 { numbers.next() } else { Some(vec![0.0; sequence.len()]) };
            SequenceLogprobs { logprobs: logprobs.unwrap_or_default(), entropies: Vec::new() }
        };
        Ok(sequences.iter().map(one).collect())
    }
    fn score_labels(&self) -> usize {
        0
    }
    fn score(&mut self, _sequences: &[&[u32]], _positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        Err(Error::invalid("a server does not compute a scoring head").help("use the backend `cpu` or `candle`"))
    }
}

fn is_untruncated(sampling: &SamplingParams) -> bool {
    sampling.top_p >= 1.0 && sampling.top_k == 0
}

/// Checks that given tokens are scored under the model's own distribution, the only one that servers support. Errors:
/// invalid, for another temperature or truncation.
fn expect_plain(sampling: &SamplingParams) -> Result<()> {
    if is_untruncated(sampling) && (sampling.temperature == 1.0 || sampling.temperature == 0.0) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a server scores given tokens at temperature 1 without truncation only, not at temperature {}",
        sampling.temperature
    ))
    .help("use temperature 1 and leave `top_p` and `top_k` out"))
}

/// Checks the sampling options. Errors: invalid, if the server's log-probabilities under them are not those of the
/// sampled distribution.
fn expect_answerable(dialect: &dyn Dialect, mode: LogprobsMode, sampling: &SamplingParams) -> Result<()> {
    let greedy = sampling.temperature == 0.0;
    let fits = match mode {
        LogprobsMode::Sampled => true,
        LogprobsMode::Tempered => greedy || is_untruncated(sampling),
        LogprobsMode::Plain => greedy || is_untruncated(sampling) && sampling.temperature == 1.0,
    };
    if fits {
        return Ok(());
    }
    let SamplingParams { temperature, top_p, top_k } = sampling;
    Err(Error::invalid(format!(
        "this {} server does not return the log-probabilities of the sampled distribution at temperature \
         {temperature}, top_p {top_p} and top_k {top_k}",
        dialect.name()
    ))
    .help("sample at temperature 1 without truncation, or start vLLM with `--logprobs-mode processed_logprobs`"))
}

/// Returns the problem and the remedy if a kind of server cannot sample under these options, regardless of its flags,
/// or `None` if it can.
pub fn unsupported_sampling(options: &Endpoint, sampling: &SamplingParams) -> Option<(String, String)> {
    let truncated = sampling.temperature > 0.0 && !is_untruncated(sampling);
    (options.server == super::dialect::InferenceServerKind::Sglang && truncated).then(|| {
        let message = "an SGLang server does not return log-probabilities after top-k and top-p";
        (message.to_string(), "leave `top_k` and `top_p` out, or use another server".to_string())
    })
}

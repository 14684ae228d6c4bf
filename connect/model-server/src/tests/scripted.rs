//! Provides a sampler that returns given texts, token by token.

use crate::{ModelServer, ModelServerOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::UnboundedReceiver;
use trainyard_core::{Chance, Result};
use trainyard_lm::GenerationConfig;
use trainyard_lm::backend::{Parameters, Sampler};
use trainyard_lm::generate::{DrawKey, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState};
use trainyard_lm::template::{BuiltinTemplate, ChatEncoder, ChatTemplate};
use trainyard_lm::tokenizer::train_bpe;
use trainyard_model_api::handler::ResponseEvent;
use trainyard_model_api::{
    ApiKind, ApiTool, Caller, ChoiceDelta, ModelApiError, ModelHandler as _, ModelPrompt, ModelRequest, ModelResponse,
    PendingRequest, ResponseSender,
};
use trainyard_tables::{Message, SamplingParams};

/// Maximum tokens of a scripted sequence.
pub const POSITIONS: usize = 2000;

/// Sampler that returns the same text in every turn and then ends the turn.
pub struct Scripted {
    script: Vec<u32>,
    sequences: BTreeMap<SequenceId, (SequenceState, SequenceRequest)>,
    next: u64,
    /// Number of sequences that were not removed.
    held: Arc<AtomicUsize>,
}

impl Sampler for Scripted {
    fn start(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        let length = request.tokens.len();
        let state = SequenceState {
            token_ids: request.tokens.clone(),
            loss_mask: vec![false; length],
            turn: vec![0; length],
            logprobs: vec![0.0; length],
            entropies: Vec::new(),
            weights_version: vec![0; length],
            constrained: Vec::new(),
            prompt_tokens: length,
            finish: None,
            fork_of: None,
        };
        self.next += 1;
        self.held.fetch_add(1, Ordering::SeqCst);
        self.sequences.insert(SequenceId(self.next), (state, request));
        Ok(SequenceId(self.next))
    }
    fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>> {
        // As slow as a small model, so that other requests start and end meanwhile.
        std::thread::sleep(std::time::Duration::from_micros(300));
        for (state, request) in self.sequences.values_mut().filter(|(state, _)| state.finish.is_none()) {
            let sampled = state.token_ids.len() - state.prompt_tokens;
            let token = self.script[sampled % self.script.len()];
            state.token_ids.push(token);
            state.loss_mask.push(true);
            state.turn.push(0);
            state.logprobs.push(-0.5);
            state.weights_version.push(0);
            if request.stop_tokens.contains(&token) {
                state.finish = Some(SequenceFinish::Stop(token));
            } else if sampled + 1 >= request.max_new_tokens {
                state.finish = Some(SequenceFinish::Length);
            }
        }
        Ok(Vec::new())
    }
    fn running(&self) -> usize {
        self.sequences.values().filter(|(state, _)| state.finish.is_none()).count()
    }
    fn sequence(&self, id: SequenceId) -> &SequenceState {
        &self.sequences[&id].0
    }
    fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.held.fetch_sub(1, Ordering::SeqCst);
        self.sequences.remove(&id).unwrap().0
    }
    fn positions(&self) -> usize {
        POSITIONS
    }
    fn cache_bytes(&self, _tokens: usize) -> u64 {
        0
    }
    fn version(&self) -> u32 {
        0
    }
    fn score_labels(&self) -> usize {
        0
    }
    fn fork(&mut self, _id: SequenceId, _at: usize, _draw: DrawKey) -> Result<SequenceId> {
        unreachable!("the server does not fork sequences")
    }
    fn append(&mut self, _id: SequenceId, _tokens: &[u32], _most: usize) -> Result<()> {
        unreachable!("the server samples one turn")
    }
    fn pause(&mut self, _id: SequenceId) {}
    fn resume(&mut self, _id: SequenceId, _most: usize) -> Result<()> {
        unreachable!("the server samples one turn")
    }
    fn set_weights(&mut self, _weights: &Parameters, _version: u32) -> Result<()> {
        unreachable!("the server does not train")
    }
    fn logprobs_of(&mut self, _sequences: &[&[u32]], _sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        unreachable!("no test requests the logprobs of the prompt")
    }
    fn score(&mut self, _sequences: &[&[u32]], _positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        unreachable!("the server does not score")
    }
}

/// A template that describes tools and writes calls.
const NATIVE: &str = "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}\
    <tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

/// Returns a chat whose vocabulary has every byte; `native` selects a template that describes tools.
pub fn chat(native: bool) -> ChatEncoder {
    let template = BuiltinTemplate::Chatml;
    let tokenizer = train_bpe(["what is it, a sum?"], 290, template.special_tokens()).unwrap();
    let template = if native { ChatTemplate::new(NATIVE).unwrap() } else { template.template().unwrap() };
    ChatEncoder::new(tokenizer, template).unwrap()
}

pub fn options() -> ModelServerOptions {
    ModelServerOptions { name: "m".into(), max_batch: 4, max_waiting: 8, calls: None, chance: Chance::new(5) }
}

/// Returns a server that samples `text` and ends its turn, and the number of its sequences.
pub fn server(native: bool, text: &str, options: ModelServerOptions) -> (ModelServer, Arc<AtomicUsize>) {
    let chat = chat(native);
    let mut script = chat.tokenizer().encode(text).unwrap();
    script.push(chat.end_token());
    let held = Arc::new(AtomicUsize::new(0));
    let sampler = Scripted { script, sequences: BTreeMap::new(), next: 0, held: held.clone() };
    (ModelServer::start(&chat, &GenerationConfig::default(), Box::new(sampler), options).unwrap(), held)
}

/// Returns a chat request of one message.
pub fn chat_request(text: &str) -> ModelRequest {
    let prompt = ModelPrompt::Messages(vec![Message::new("user", text)]);
    ModelRequest { max_tokens: Some(500), ..ModelRequest::new(ApiKind::Chat, "m", prompt) }
}

/// Returns a chat request of one message with a tool.
pub fn chat_request_with_tool(text: &str) -> ModelRequest {
    let parameters = serde_json::json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    ModelRequest {
        tools: vec![ApiTool { name: "sum".into(), description: "Adds.".into(), parameters }],
        ..chat_request(text)
    }
}

/// Sends a request without waiting.
pub fn send(host: &ModelServer, request: ModelRequest) -> UnboundedReceiver<ResponseEvent> {
    let (reply, events) = ResponseSender::new();
    host.handle(PendingRequest { request, caller: Caller::default(), reply });
    events
}

/// Returns the deltas of a response, and the whole response.
pub fn wait(mut events: UnboundedReceiver<ResponseEvent>) -> Result<(Vec<ChoiceDelta>, ModelResponse), ModelApiError> {
    let mut deltas = Vec::new();
    loop {
        match events.blocking_recv().expect("an end") {
            ResponseEvent::Delta(delta) => deltas.push(delta),
            ResponseEvent::Done(response) => return Ok((deltas, *response)),
            ResponseEvent::Failed(refusal) => return Err(refusal),
        }
    }
}

pub fn response(host: &ModelServer, request: ModelRequest) -> ModelResponse {
    wait(send(host, request)).unwrap().1
}

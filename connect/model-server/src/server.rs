//! Handles the requests to one model.

use super::calls::ToolCallStyle;
use super::choice_decoder::ChoiceDecoder;
use super::job::SamplingJob;
use super::prompt::{self, PreparedPrompt};
use super::worker::SamplingWorker;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::GenerationConfig;
use trainyard_lm::backend::Sampler;
use trainyard_lm::constrain::Grammar;
use trainyard_lm::generate::TokenConstraint;
use trainyard_lm::template::ChatEncoder;
use trainyard_model_api::{
    ApiKind, Caller, ModelApiError, ModelCard, ModelHandler, ModelRequest, PendingRequest, ResponseSender,
};
use trainyard_tables::SamplingParams;

/// Options of a served model.
#[derive(Debug, Clone)]
pub struct ModelServerOptions {
    /// Name in requests.
    pub name: String,
    /// Maximum sequences that are sampled together; further requests wait.
    pub max_batch: usize,
    /// Maximum waiting requests; further ones are rejected with status 429.
    pub max_waiting: usize,
    /// Format of tool calls. If set, the system message describes the tools, and the template's own format is not used.
    pub calls: Option<String>,
    /// Random source of requests without a seed.
    pub chance: Chance,
}

/// A request's prompt and the rules of its sampling.
struct PreparedJob {
    prepared: PreparedPrompt,
    max_tokens: usize,
    stop_tokens: Vec<u32>,
    constraint: Option<Box<dyn TokenConstraint>>,
}

/// A served model. Dropping it completes the accepted requests first.
pub struct ModelServer {
    chat: Arc<ChatEncoder>,
    generation: GenerationConfig,
    options: ModelServerOptions,
    call_style: ToolCallStyle,
    positions: usize,
    /// Number of requests so far.
    number: AtomicU64,
    waiting: Arc<AtomicUsize>,
    jobs: Mutex<Option<Sender<SamplingJob>>>,
    worker: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts the sampling thread. `chat` and `generation` must belong to the model of `sampler`.
    ///
    /// Errors: invalid (an unknown format of calls), retryable (the thread cannot be started).
    pub fn start(
        chat: &ChatEncoder,
        generation: &GenerationConfig,
        sampler: Box<dyn Sampler>,
        options: ModelServerOptions,
    ) -> Result<Self> {
        let style = ToolCallStyle::choose(chat, options.calls.as_deref())?;
        let chat = Arc::new(chat.clone().with_native_calls(matches!(style, ToolCallStyle::Native(_))));
        let (jobs, receiver) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let positions = sampler.positions();
        let worker = SamplingWorker {
            sampler,
            chat: chat.clone(),
            max_sequences: options.max_batch,
            waiting: waiting.clone(),
            jobs: receiver,
        };
        let worker = std::thread::Builder::new()
            .name("sampling".into())
            .spawn(move || worker.run())
            .map_err(|e| Error::retryable(format!("cannot start the sampling thread: {e}")))?;
        Ok(Self {
            chat,
            generation: generation.clone(),
            options,
            call_style: style,
            positions,
            number: AtomicU64::new(0),
            waiting,
            jobs: Mutex::new(Some(jobs)),
            worker: Some(worker),
        })
    }
    /// Returns the sampling options of a request, with the model's defaults for absent ones.
    fn sampling(&self, request: &ModelRequest) -> SamplingParams {
        let default = &self.generation;
        SamplingParams {
            temperature: request.temperature.unwrap_or(default.temperature),
            top_p: request.top_p.unwrap_or(default.top_p),
            top_k: request.top_k.unwrap_or(default.top_k),
        }
    }
    /// Returns the maximum tokens to sample. Anthropic's clients must send a limit and send large ones, so their limit
    /// is reduced to the available positions. Errors: the positions do not suffice.
    fn limit(&self, request: &ModelRequest, prompt: usize) -> Result<usize, ModelApiError> {
        let available = self.positions.saturating_sub(prompt);
        let default = self.generation.max_new_tokens.map_or(available, |max| max as usize);
        let requested = request.max_tokens.unwrap_or(default.min(available).max(1));
        let fits = if request.api == ApiKind::Messages { available > 0 } else { requested <= available };
        if fits {
            Ok(requested.min(available))
        } else {
            Err(ModelApiError::too_long(prompt, requested, self.positions))
        }
    }
    /// Returns everything that sampling needs. Errors: a request that the server does not support.
    fn prepare(&self, request: &ModelRequest) -> Result<PreparedJob, ModelApiError> {
        let prepared = prompt::prepare(&self.chat, self.call_style, request)?;
        let max_tokens = self.limit(request, prepared.tokens.len())?;
        let batch = self.options.max_batch;
        if request.n > batch {
            return Err(ModelApiError::invalid_field("n", format!("`n` is {}, but the maximum is {batch}", request.n)));
        }
        let stop_tokens = self.stop_tokens(request);
        let constraint = match &prepared.grammar {
            None => None,
            Some(grammar) => Some(self.constraint(request, grammar, &stop_tokens)?),
        };
        Ok(PreparedJob { prepared, max_tokens, stop_tokens, constraint })
    }
    /// Returns the tokens that end a turn.
    fn stop_tokens(&self, request: &ModelRequest) -> Vec<u32> {
        let mut stop_tokens = request.stop_tokens.clone();
        if !request.ignore_end {
            stop_tokens.extend_from_slice(self.chat.stop_tokens());
        }
        stop_tokens
    }
    fn constraint(
        &self,
        request: &ModelRequest,
        grammar: &Arc<Grammar>,
        stop_tokens: &[u32],
    ) -> Result<Box<dyn TokenConstraint>, ModelApiError> {
        let constraint = self.chat.constraint(grammar.clone(), stop_tokens).map_err(|error| {
            let param = Some(request.form_field().to_string());
            ModelApiError { param, ..ModelApiError::from(error) }
        })?;
        Ok(Box::new(constraint))
    }
    fn job(&self, request: ModelRequest, reply: ResponseSender, parts: PreparedJob) -> SamplingJob {
        let PreparedJob { prepared, max_tokens, stop_tokens, constraint } = parts;
        let chance = self.options.chance.child("request", &[self.number.fetch_add(1, Ordering::Relaxed)]);
        let format: Option<Arc<dyn ToolFormat>> = prepared.format.map(Arc::from);
        let turn = |choice| ChoiceDecoder::new(&request, choice, prepared.parser.clone(), format.clone(), chance);
        SamplingJob {
            decoders: (0..request.n).map(turn).collect(),
            sampling: self.sampling(&request),
            draws: request.seed.map_or(chance, Chance::new),
            tokens: prepared.tokens,
            stop_tokens,
            constraint,
            max_tokens,
            request,
            reply,
        }
    }
    /// Passes a job to the worker; returns the job if the worker has stopped.
    fn submit(&self, job: SamplingJob) -> Option<SamplingJob> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        match jobs.as_ref() {
            None => Some(job),
            Some(jobs) => jobs.send(job).err().map(|error| error.0),
        }
    }
}

impl ModelHandler for ModelServer {
    fn models(&self, _caller: &Caller) -> Result<Vec<ModelCard>, ModelApiError> {
        Ok(vec![ModelCard { name: self.options.name.clone(), positions: Some(self.positions) }])
    }
    fn handle(&self, pending: PendingRequest) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.options.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{} requests are already waiting; try again later", self.options.max_waiting);
            return pending.reply.fail(ModelApiError::new(429, message));
        }
        let PendingRequest { request, reply, .. } = pending;
        let (reply, refusal) = match self.prepare(&request) {
            Err(refusal) => (reply, refusal),
            Ok(prepared) => match self.submit(self.job(request, reply, prepared)) {
                None => return,
                Some(job) => (job.reply, ModelApiError::new(503, "the server is shutting down")),
            },
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        reply.fail(refusal);
    }
    fn tokenize(&self, _caller: &Caller, text: &str) -> Result<Vec<u32>, ModelApiError> {
        Ok(self.chat.tokenizer().encode(text)?)
    }
    fn count_tokens(&self, _caller: &Caller, request: &ModelRequest) -> Result<usize, ModelApiError> {
        Ok(prompt::prepare(&self.chat, self.call_style, request)?.tokens.len())
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

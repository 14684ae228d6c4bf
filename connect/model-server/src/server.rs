//! The desk of a model.

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
    /// Sequences that are sampled together; further requests wait.
    pub max_batch: usize,
    /// Maximum waiting requests; further ones are rejected with status 429.
    pub max_waiting: usize,
    /// Format of tool calls, in place of the template's own; the tools are then described in the system message.
    pub calls: Option<String>,
    /// Source of the draws of requests without a seed.
    pub chance: Chance,
}

/// A served model. When it is dropped, accepted requests are answered first.
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
    /// Starts the thread that samples. `chat` and `generation` are those of the sampler's model.
    ///
    /// Errors: invalid (an unknown format of calls), retryable (no thread).
    pub fn start(
        chat: &ChatEncoder,
        generation: &GenerationConfig,
        sampler: Box<dyn Sampler>,
        options: ModelServerOptions,
    ) -> Result<Self> {
        let way = ToolCallStyle::choose(chat, options.calls.as_deref())?;
        let chat = Arc::new(chat.clone().with_native_calls(matches!(way, ToolCallStyle::Native(_))));
        let (jobs, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let positions = sampler.positions();
        let worker = SamplingWorker {
            sampler,
            chat: chat.clone(),
            max_sequences: options.max_batch,
            waiting: waiting.clone(),
            jobs: received,
        };
        let worker = std::thread::Builder::new()
            .name("sampling".into())
            .spawn(move || worker.run())
            .map_err(|e| Error::retryable(format!("no thread for sampling: {e}")))?;
        Ok(Self {
            chat,
            generation: generation.clone(),
            options,
            call_style: way,
            positions,
            number: AtomicU64::new(0),
            waiting,
            jobs: Mutex::new(Some(jobs)),
            worker: Some(worker),
        })
    }
    /// Returns the sampling of a request: its own, else the model's.
    fn sampling(&self, asked: &ModelRequest) -> SamplingParams {
        let own = &self.generation;
        SamplingParams {
            temperature: asked.temperature.unwrap_or(own.temperature),
            top_p: asked.top_p.unwrap_or(own.top_p),
            top_k: asked.top_k.unwrap_or(own.top_k),
        }
    }
    /// Returns the maximum tokens to sample. Anthropic's clients must name a limit and name large ones, so there it is
    /// reduced to the available room. Errors: no room.
    fn limit(&self, asked: &ModelRequest, prompt: usize) -> Result<usize, ModelApiError> {
        let room = self.positions.saturating_sub(prompt);
        let own = self.generation.max_new_tokens.map_or(room, |most| most as usize);
        let wanted = asked.max_tokens.unwrap_or(own.min(room).max(1));
        let fits = if asked.api == ApiKind::Messages { room > 0 } else { wanted <= room };
        if fits { Ok(wanted.min(room)) } else { Err(ModelApiError::too_long(prompt, wanted, self.positions)) }
    }
    /// Returns prompt and limit of a request. Errors: a request that cannot be answered.
    fn prepare(&self, asked: &ModelRequest) -> Result<(PreparedPrompt, usize), ModelApiError> {
        let opened = prompt::prepare(&self.chat, self.call_style, asked)?;
        let most = self.limit(asked, opened.tokens.len())?;
        let batch = self.options.max_batch;
        if asked.n > batch {
            return Err(ModelApiError::invalid_field("n", format!("`n` is {}, but {batch} is the most here", asked.n)));
        }
        Ok((opened, most))
    }
    fn job(&self, asked: ModelRequest, reply: ResponseSender, (opened, most): (PreparedPrompt, usize)) -> SamplingJob {
        let own = self.options.chance.child("request", &[self.number.fetch_add(1, Ordering::Relaxed)]);
        let mut stop_tokens = asked.stop_tokens.clone();
        if !asked.ignore_end {
            stop_tokens.extend_from_slice(self.chat.stop_tokens());
        }
        let format: Option<Arc<dyn ToolFormat>> = opened.format.map(Arc::from);
        let turn = |choice| ChoiceDecoder::new(&asked, choice, opened.parser.clone(), format.clone(), own);
        SamplingJob {
            decoders: (0..asked.n).map(turn).collect(),
            sampling: self.sampling(&asked),
            draws: asked.seed.map_or(own, Chance::new),
            tokens: opened.tokens,
            stop_tokens,
            most,
            request: asked,
            reply,
        }
    }
    /// Passes a job to the worker; returns it if the worker has stopped.
    fn submit(&self, job: SamplingJob) -> Option<SamplingJob> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        match jobs.as_ref() {
            None => Some(job),
            Some(jobs) => jobs.send(job).err().map(|back| back.0),
        }
    }
}

impl ModelHandler for ModelServer {
    fn models(&self, _caller: &Caller) -> Result<Vec<ModelCard>, ModelApiError> {
        Ok(vec![ModelCard { name: self.options.name.clone(), positions: Some(self.positions) }])
    }
    fn handle(&self, question: PendingRequest) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.options.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{} requests wait already; try again later", self.options.max_waiting);
            return question.reply.fail(ModelApiError::new(429, message));
        }
        let PendingRequest { request: asked, reply, .. } = question;
        let (reply, refusal) = match self.prepare(&asked) {
            Err(refusal) => (reply, refusal),
            Ok(prepared) => match self.submit(self.job(asked, reply, prepared)) {
                None => return,
                Some(job) => (job.reply, ModelApiError::new(503, "the server stops")),
            },
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        reply.fail(refusal);
    }
    fn tokenize(&self, _caller: &Caller, text: &str) -> Result<Vec<u32>, ModelApiError> {
        Ok(self.chat.tokenizer().encode(text)?)
    }
    fn count_tokens(&self, _caller: &Caller, asked: &ModelRequest) -> Result<usize, ModelApiError> {
        Ok(prompt::prepare(&self.chat, self.call_style, asked)?.tokens.len())
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

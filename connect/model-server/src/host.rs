//! The desk of a model.

use super::calls::Way;
use super::job::Job;
use super::prompt::{self, Opened};
use super::turn::Turn;
use super::worker::Worker;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::GenerationConfig;
use trainyard_lm::backend::Sampler;
use trainyard_lm::template::Chat;
use trainyard_model_api::{Asked, Caller, Card, Desk, Form, Question, Refusal, Reply};
use trainyard_tables::Sampling;

/// Options of a served model.
#[derive(Debug, Clone)]
pub struct HostOptions {
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
pub struct Host {
    chat: Arc<Chat>,
    generation: GenerationConfig,
    options: HostOptions,
    way: Way,
    positions: usize,
    /// Number of requests so far.
    number: AtomicU64,
    waiting: Arc<AtomicUsize>,
    jobs: Mutex<Option<Sender<Job>>>,
    worker: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the thread that samples. `chat` and `generation` are those of the sampler's model.
    ///
    /// Errors: invalid (an unknown format of calls), retryable (no thread).
    pub fn start(
        chat: &Chat,
        generation: &GenerationConfig,
        sampler: Box<dyn Sampler>,
        options: HostOptions,
    ) -> Result<Self> {
        let way = Way::of(chat, options.calls.as_deref())?;
        let chat = Arc::new(chat.clone().with_native_calls(matches!(way, Way::Native(_))));
        let (jobs, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let positions = sampler.positions();
        let worker =
            Worker { sampler, chat: chat.clone(), most: options.max_batch, waiting: waiting.clone(), jobs: received };
        let worker = std::thread::Builder::new()
            .name("sampling".into())
            .spawn(move || worker.run())
            .map_err(|e| Error::retryable(format!("no thread for sampling: {e}")))?;
        Ok(Self {
            chat,
            generation: generation.clone(),
            options,
            way,
            positions,
            number: AtomicU64::new(0),
            waiting,
            jobs: Mutex::new(Some(jobs)),
            worker: Some(worker),
        })
    }
    /// Returns the sampling of a request: its own, else the model's.
    fn sampling(&self, asked: &Asked) -> Sampling {
        let own = &self.generation;
        Sampling {
            temperature: asked.temperature.unwrap_or(own.temperature),
            top_p: asked.top_p.unwrap_or(own.top_p),
            top_k: asked.top_k.unwrap_or(own.top_k),
        }
    }
    /// Returns the maximum tokens to sample. Anthropic's clients must name a limit and name large ones, so there it is
    /// reduced to the available room. Errors: no room.
    fn limit(&self, asked: &Asked, prompt: usize) -> Result<usize, Refusal> {
        let room = self.positions.saturating_sub(prompt);
        let own = self.generation.max_new_tokens.map_or(room, |most| most as usize);
        let wanted = asked.max_tokens.unwrap_or(own.min(room).max(1));
        let fits = if asked.form == Form::Messages { room > 0 } else { wanted <= room };
        if fits { Ok(wanted.min(room)) } else { Err(Refusal::too_long(prompt, wanted, self.positions)) }
    }
    /// Returns prompt and limit of a request. Errors: a request that cannot be answered.
    fn prepare(&self, asked: &Asked) -> Result<(Opened, usize), Refusal> {
        let opened = prompt::open(&self.chat, self.way, asked)?;
        let most = self.limit(asked, opened.tokens.len())?;
        let batch = self.options.max_batch;
        if asked.n > batch {
            return Err(Refusal::field("n", format!("`n` is {}, but {batch} is the most here", asked.n)));
        }
        Ok((opened, most))
    }
    fn job(&self, asked: Asked, reply: Reply, (opened, most): (Opened, usize)) -> Job {
        let own = self.options.chance.child("request", &[self.number.fetch_add(1, Ordering::Relaxed)]);
        let mut stop_tokens = asked.stop_tokens.clone();
        if !asked.ignore_end {
            stop_tokens.extend_from_slice(self.chat.stop_tokens());
        }
        let format: Option<Arc<dyn ToolFormat>> = opened.format.map(Arc::from);
        let turn = |choice| Turn::new(&asked, choice, opened.speech.clone(), format.clone(), own);
        Job {
            turns: (0..asked.n).map(turn).collect(),
            sampling: self.sampling(&asked),
            draws: asked.seed.map_or(own, Chance::new),
            tokens: opened.tokens,
            stop_tokens,
            most,
            asked,
            reply,
        }
    }
    /// Passes a job to the worker; returns it if the worker has stopped.
    fn hand_over(&self, job: Job) -> Option<Job> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        match jobs.as_ref() {
            None => Some(job),
            Some(jobs) => jobs.send(job).err().map(|back| back.0),
        }
    }
}

impl Desk for Host {
    fn models(&self, _caller: &Caller) -> Result<Vec<Card>, Refusal> {
        Ok(vec![Card { name: self.options.name.clone(), positions: Some(self.positions) }])
    }
    fn ask(&self, question: Question) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.options.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{} requests wait already; try again later", self.options.max_waiting);
            return question.reply.refuse(Refusal::new(429, message));
        }
        let Question { asked, reply, .. } = question;
        let (reply, refusal) = match self.prepare(&asked) {
            Err(refusal) => (reply, refusal),
            Ok(prepared) => match self.hand_over(self.job(asked, reply, prepared)) {
                None => return,
                Some(job) => (job.reply, Refusal::new(503, "the server stops")),
            },
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        reply.refuse(refusal);
    }
    fn tokenize(&self, _caller: &Caller, text: &str) -> Result<Vec<u32>, Refusal> {
        Ok(self.chat.tokenizer().encode(text)?)
    }
    fn count(&self, _caller: &Caller, asked: &Asked) -> Result<usize, Refusal> {
        Ok(prompt::open(&self.chat, self.way, asked)?.tokens.len())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

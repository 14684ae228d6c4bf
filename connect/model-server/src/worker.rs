//! Runs the sampling thread: it begins requests when the batch has room, and advances all sequences by one token at a
//! time.

use super::choice_decoder::SamplerToken;
use super::job::{ActiveJob, SamplingJob};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use trainyard_core::{Error, Result};
use trainyard_lm::backend::Sampler;
use trainyard_lm::generate::{DrawKey, SequenceFinish, SequenceRequest};
use trainyard_lm::template::ChatEncoder;
use trainyard_model_api::{ApiFinishReason, ModelApiError, ModelResponse, Usage};
use trainyard_tables::SamplingParams;

const PLAIN: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };

pub struct SamplingWorker {
    pub sampler: Box<dyn Sampler>,
    pub chat: Arc<ChatEncoder>,
    /// Maximum sequences that are sampled together.
    pub max_sequences: usize,
    /// Number of accepted requests that have not begun; the server increments it.
    pub waiting: Arc<AtomicUsize>,
    pub jobs: Receiver<SamplingJob>,
}

impl SamplingWorker {
    /// Runs until all senders are dropped and all requests are completed.
    pub fn run(mut self) {
        let (mut queue, mut active): (VecDeque<SamplingJob>, Vec<ActiveJob>) = (VecDeque::new(), Vec::new());
        let mut open = true;
        while open || !queue.is_empty() || !active.is_empty() {
            if queue.is_empty() && active.is_empty() {
                match self.jobs.recv() {
                    Ok(job) => queue.push_back(job),
                    Err(_) => return,
                }
            }
            loop {
                match self.jobs.try_recv() {
                    Ok(job) => queue.push_back(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                }
            }
            self.begin(&mut queue, &mut active);
            self.drop_disconnected(&mut active);
            if !active.is_empty()
                && let Err(error) = self.step(&mut active)
            {
                self.fail(&mut active, &error);
            }
        }
    }
    /// Begins queued requests in their order while the batch has room.
    fn begin(&mut self, queue: &mut VecDeque<SamplingJob>, active: &mut Vec<ActiveJob>) {
        while let Some(next) = queue.front() {
            let busy: usize = active.iter().map(|active| active.sequences.iter().flatten().count()).sum();
            if busy + next.decoders.len() > self.max_sequences && busy > 0 {
                return;
            }
            let Some(job) = queue.pop_front() else { return };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if job.reply.is_disconnected() {
                continue;
            }
            match self.start(job) {
                Ok(started) => active.push(started),
                Err((job, error)) => job.reply.fail(ModelApiError::from(error)),
            }
        }
    }
    fn start(&mut self, job: SamplingJob) -> Result<ActiveJob, (Box<SamplingJob>, Error)> {
        let (mut sequences, mut prompt_logprobs) = (Vec::new(), None);
        let started = (|| {
            if job.request.prompt_logprobs {
                let mut scored = self.sampler.logprobs_of(&[&job.tokens], &PLAIN)?;
                prompt_logprobs = scored.pop().map(|scored| scored.logprobs);
            }
            for sample in 0..job.decoders.len() as u64 {
                let id = self.sampler.start(SequenceRequest {
                    tokens: job.tokens.clone(),
                    draw: DrawKey { chance: job.draws, problem: 0, sample },
                    sampling: job.sampling,
                    stop_tokens: job.stop_tokens.clone(),
                    max_new_tokens: job.max_tokens,
                })?;
                sequences.push(Some(id));
                if let Some(constraint) = &job.constraint {
                    self.sampler.constrain(id, constraint.fork())?;
                }
                if let Some(top @ 1..) = job.request.logprobs {
                    self.sampler.list_top(id, top)?;
                }
            }
            Ok(())
        })();
        if let Err(error) = started {
            for id in sequences.into_iter().flatten() {
                self.sampler.remove(id);
            }
            return Err((Box::new(job), error));
        }
        let finished = job.decoders.iter().map(|_| None).collect();
        Ok(ActiveJob { job, prompt_logprobs, sequences, finished })
    }
    /// Removes the requests of clients that have disconnected.
    fn drop_disconnected(&mut self, active: &mut Vec<ActiveJob>) {
        for disconnected in active.extract_if(.., |active| active.job.reply.is_disconnected()) {
            for id in disconnected.sequences.into_iter().flatten() {
                self.sampler.remove(id);
            }
            tracing::info!("a client disconnected before its response was complete");
        }
    }
    /// Samples one token for every sequence, processes it, and sends the complete responses.
    fn step(&mut self, active: &mut Vec<ActiveJob>) -> Result<()> {
        let before: Vec<Vec<usize>> = active.iter().map(|active| self.lengths(active)).collect();
        self.sampler.step()?;
        for (active, before) in active.iter_mut().zip(before) {
            for (choice, length) in before.into_iter().enumerate() {
                self.process_tokens(active, choice, length)?;
            }
        }
        for done in active.extract_if(.., |active| active.finished.iter().all(Option::is_some)) {
            respond(done);
        }
        Ok(())
    }
    fn lengths(&self, active: &ActiveJob) -> Vec<usize> {
        let length = |id| self.sampler.sequence(id).token_ids.len();
        active.sequences.iter().map(|id| id.map_or(0, length)).collect()
    }
    /// Processes the tokens of a sequence from index `length` on.
    fn process_tokens(&mut self, active: &mut ActiveJob, choice: usize, length: usize) -> Result<()> {
        let Some(id) = active.sequences[choice] else { return Ok(()) };
        let ActiveJob { job, finished, sequences, .. } = active;
        let state = self.sampler.sequence(id);
        let tops = self.sampler.top(id);
        let last = state.token_ids.len();
        let mut finish = None;
        for at in length..last {
            let sampled = SamplerToken {
                id: state.token_ids[at],
                logprob: state.logprobs[at],
                top: tops.get(at - state.prompt_tokens).map_or(&[], Vec::as_slice),
            };
            let ends = at + 1 == last && matches!(state.finish, Some(SequenceFinish::Stop(_)));
            let (delta, stopped) = job.decoders[choice].push_token(&self.chat, &job.request, &sampled, ends)?;
            if job.request.stream && !delta.is_empty() {
                job.reply.send_delta(delta);
            }
            finish = stopped;
            if finish.is_some() {
                break;
            }
        }
        let finish = finish.or(match state.finish {
            None => None,
            Some(SequenceFinish::Nan) => {
                return Err(Error::bug("the model's logits are not finite")
                    .help("check that its weights are complete and finite"));
            }
            Some(SequenceFinish::Length) => Some(ApiFinishReason::Length),
            Some(SequenceFinish::Stop(token)) if job.request.stop_tokens.contains(&token) => {
                Some(ApiFinishReason::Token(token))
            }
            Some(SequenceFinish::Stop(_)) => Some(ApiFinishReason::End),
        });
        let Some(finish) = finish else { return Ok(()) };
        self.sampler.remove(id);
        sequences[choice] = None;
        let (delta, whole) = job.decoders[choice].end(&self.chat, finish)?;
        if job.request.stream && !delta.is_empty() {
            job.reply.send_delta(delta);
        }
        finished[choice] = Some(whole);
        Ok(())
    }
    /// Fails all requests in flight after an error of the sampler. Later requests are not affected.
    fn fail(&mut self, active: &mut Vec<ActiveJob>, error: &Error) {
        tracing::error!("{error}");
        for failed in active.drain(..) {
            for id in failed.sequences.into_iter().flatten() {
                self.sampler.remove(id);
            }
            failed.job.reply.fail(ModelApiError { status: 500, ..ModelApiError::from(error.clone()) });
        }
    }
}

fn respond(done: ActiveJob) {
    let ActiveJob { job, prompt_logprobs, finished, .. } = done;
    let choices: Vec<_> = finished.into_iter().flatten().collect();
    let sampled = choices.iter().map(|choice| choice.tokens.len()).sum();
    let thinking = job.decoders.iter().map(|turn| turn.thinking).sum();
    let usage = Usage { prompt: job.tokens.len(), sampled, thinking };
    job.reply.finish(ModelResponse { choices, prompt_ids: job.tokens, prompt_logprobs, usage });
}

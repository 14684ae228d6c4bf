//! The thread that samples: requests begin whenever there is room, and all sequences advance by a token together.

use super::job::{Active, Job};
use super::turn::Drawn;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use trainyard_core::{Error, Result};
use trainyard_lm::backend::Sampler;
use trainyard_lm::generate::{DrawKey, Finish as Ended, Request};
use trainyard_lm::template::Chat;
use trainyard_model_api::{Answered, Finish, Refusal, Usage};
use trainyard_tables::Sampling;

const PLAIN: Sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0 };

pub struct Worker {
    pub sampler: Box<dyn Sampler>,
    pub chat: Arc<Chat>,
    /// Maximum sequences that are sampled together.
    pub most: usize,
    /// Number of accepted requests that have not begun; shared with the host.
    pub waiting: Arc<AtomicUsize>,
    pub jobs: Receiver<Job>,
}

impl Worker {
    /// Works until all senders of requests are dropped and all requests are answered.
    pub fn run(mut self) {
        let (mut queue, mut active): (VecDeque<Job>, Vec<Active>) = (VecDeque::new(), Vec::new());
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
            self.drop_gone(&mut active);
            if !active.is_empty()
                && let Err(error) = self.step(&mut active)
            {
                self.fail(&mut active, &error);
            }
        }
    }
    /// Begins requests in their order while there is room.
    fn begin(&mut self, queue: &mut VecDeque<Job>, active: &mut Vec<Active>) {
        while let Some(next) = queue.front() {
            let busy: usize = active.iter().map(|active| active.sequences.iter().flatten().count()).sum();
            if busy + next.turns.len() > self.most && busy > 0 {
                return;
            }
            let Some(job) = queue.pop_front() else { return };
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if job.reply.is_gone() {
                continue;
            }
            match self.start(job) {
                Ok(started) => active.push(started),
                Err((job, error)) => job.reply.refuse(Refusal::from(error)),
            }
        }
    }
    fn start(&mut self, job: Job) -> Result<Active, (Box<Job>, Error)> {
        let (mut sequences, mut prompt_logprobs) = (Vec::new(), None);
        let started = (|| {
            if job.asked.prompt_logprobs {
                let mut scored = self.sampler.logprobs_of(&[&job.tokens], &PLAIN)?;
                prompt_logprobs = scored.pop().map(|scored| scored.logprobs);
            }
            for sample in 0..job.turns.len() as u64 {
                let id = self.sampler.start(Request {
                    tokens: job.tokens.clone(),
                    draw: DrawKey { chance: job.draws, problem: 0, sample },
                    sampling: job.sampling,
                    stop_tokens: job.stop_tokens.clone(),
                    max_new_tokens: job.most,
                })?;
                sequences.push(Some(id));
                if let Some(top @ 1..) = job.asked.logprobs {
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
        let ended = job.turns.iter().map(|_| None).collect();
        Ok(Active { job, prompt_logprobs, sequences, ended })
    }
    /// Removes requests whose clients have disconnected.
    fn drop_gone(&mut self, active: &mut Vec<Active>) {
        for gone in active.extract_if(.., |active| active.job.reply.is_gone()) {
            for id in gone.sequences.into_iter().flatten() {
                self.sampler.remove(id);
            }
            tracing::info!("a client went away before its answer was complete");
        }
    }
    /// Samples a token for every sequence, and processes it.
    fn step(&mut self, active: &mut Vec<Active>) -> Result<()> {
        let before: Vec<Vec<usize>> = active.iter().map(|active| self.lengths(active)).collect();
        self.sampler.step()?;
        for (active, before) in active.iter_mut().zip(before) {
            for (choice, length) in before.into_iter().enumerate() {
                self.read(active, choice, length)?;
            }
        }
        for done in active.extract_if(.., |active| active.ended.iter().all(Option::is_some)) {
            answer(done);
        }
        Ok(())
    }
    fn lengths(&self, active: &Active) -> Vec<usize> {
        let length = |id| self.sampler.sequence(id).token_ids.len();
        active.sequences.iter().map(|id| id.map_or(0, length)).collect()
    }
    /// Processes the tokens of a sequence from `length` on.
    fn read(&mut self, active: &mut Active, choice: usize, length: usize) -> Result<()> {
        let Some(id) = active.sequences[choice] else { return Ok(()) };
        let Active { job, ended, sequences, .. } = active;
        let state = self.sampler.sequence(id);
        let tops = self.sampler.top(id);
        let last = state.token_ids.len();
        let mut finish = None;
        for at in length..last {
            let drawn = Drawn {
                id: state.token_ids[at],
                logprob: state.logprobs[at],
                top: tops.get(at - state.prompt_tokens).map_or(&[], Vec::as_slice),
            };
            let ends = at + 1 == last && matches!(state.finish, Some(Ended::Stop(_)));
            let (piece, stopped) = job.turns[choice].take(&self.chat, &job.asked, &drawn, ends)?;
            if job.asked.stream && !piece.is_empty() {
                job.reply.piece(piece);
            }
            finish = stopped;
            if finish.is_some() {
                break;
            }
        }
        let finish = finish.or(match state.finish {
            None => None,
            Some(Ended::Nan) => {
                return Err(Error::bug("the model's logits are not finite").help("see whether its weights are whole"));
            }
            Some(Ended::Length) => Some(Finish::Length),
            Some(Ended::Stop(token)) if job.asked.stop_tokens.contains(&token) => Some(Finish::Token(token)),
            Some(Ended::Stop(_)) => Some(Finish::End),
        });
        let Some(finish) = finish else { return Ok(()) };
        self.sampler.remove(id);
        sequences[choice] = None;
        let (piece, whole) = job.turns[choice].end(&self.chat, finish)?;
        if job.asked.stream && !piece.is_empty() {
            job.reply.piece(piece);
        }
        ended[choice] = Some(whole);
        Ok(())
    }
    /// Ends all requests in flight after a fault of the sampler; later ones are unaffected.
    fn fail(&mut self, active: &mut Vec<Active>, error: &Error) {
        tracing::error!("{error}");
        for failed in active.drain(..) {
            for id in failed.sequences.into_iter().flatten() {
                self.sampler.remove(id);
            }
            failed.job.reply.refuse(Refusal { status: 500, ..Refusal::from(error.clone()) });
        }
    }
}

fn answer(done: Active) {
    let Active { job, prompt_logprobs, ended, .. } = done;
    let choices: Vec<_> = ended.into_iter().flatten().collect();
    let sampled = choices.iter().map(|choice| choice.tokens.len()).sum();
    let thinking = job.turns.iter().map(|turn| turn.thinking).sum();
    let usage = Usage { prompt: job.tokens.len(), sampled, thinking };
    job.reply.done(Answered { choices, prompt_ids: job.tokens, prompt_logprobs, usage });
}

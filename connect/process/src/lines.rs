//! The wire of user-defined programs: lines of a [`Language`], answered by number.

use crate::fault::{Fault, Raised};
use crate::folder::Folder;
use crate::language::{Conversation, Heard, Language};
use crate::program::Program;
use crate::supervisor::{Capacity, Decoded, Failure, Wire};
use crate::ticket::{Reply, Responder};
use crate::wire::Request;
use crate::words::Log;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;

/// Settings that all lanes of a program share.
pub struct Setting {
    /// Name of the program in messages: ``reward `process` (python3 my.py)``.
    pub place: String,
    pub folder: Folder,
    pub language: Arc<dyn Language>,
    pub timeout: Duration,
    pub variables: Vec<String>,
    pub log: Log,
}

/// A request with its claim.
pub struct Job {
    /// Request; `None` requests the features that the program reported when it was ready.
    pub request: Option<Request>,
    pub responder: Responder,
    /// Process with the request's state, if it has any.
    pub life: Option<u64>,
}

/// Protocol of one lane of a program.
pub struct Lines {
    setting: Arc<Setting>,
    conversation: Box<dyn Conversation>,
    /// Features that the process reported; `None` until it is ready.
    ready: Option<Value>,
    unsent: String,
}

impl Lines {
    pub fn new(setting: Arc<Setting>) -> Self {
        let conversation = setting.language.begin();
        Self { setting, conversation, ready: None, unsent: String::new() }
    }
}

impl Wire for Lines {
    type Job = Job;
    type Response = Result<Value, Raised>;
    /// One to process and one to begin immediately after it; more would only wait while other lanes are idle. No other
    /// lane can process a lane's own.
    const CAPACITY: Capacity = Capacity { common: 2, own: 64, in_batches: false };

    fn start(&mut self) -> trainyard_core::Result<Program> {
        let Setting { place, folder, variables, log, .. } = &*self.setting;
        Program::start(&folder.command, folder.path(), variables, log.clone()).map_err(|e| e.at(place))
    }
    fn greeting(&mut self) -> Vec<u8> {
        self.conversation = self.setting.language.begin();
        self.ready = None;
        self.unsent.clear();
        self.conversation.opening().into_bytes()
    }
    fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
    fn settle_unsent(&mut self, job: Job, life: Option<u64>) -> Option<Job> {
        if job.life.is_some() && job.life != life {
            job.responder.give(Err(Fault::lost(&self.setting.place)));
            return None;
        }
        Some(job)
    }
    fn encode(&mut self, job: Job, number: u64, life: u64) -> Option<Job> {
        let Some(request) = &job.request else {
            let value = self.ready.clone().unwrap_or_default();
            job.responder.give(Ok(Reply { value, life }));
            return None;
        };
        self.unsent.push_str(&request.line(number));
        Some(job)
    }
    fn take_bytes(&mut self) -> Option<(Vec<u8>, Duration)> {
        let lines = std::mem::take(&mut self.unsent);
        (!lines.is_empty()).then(|| (lines.into_bytes(), self.setting.timeout))
    }
    fn decode(&mut self, line: &[u8]) -> Result<Decoded<Self::Response>, String> {
        let mut decoded = Decoded::default();
        match self.conversation.hear(line)? {
            Heard::Ready(_) if self.ready.is_some() => return Err("said twice that it is ready".to_string()),
            Heard::Ready(ready) => self.ready = Some(ready),
            Heard::Answer(number, result) => decoded.responses.push((number, result)),
            Heard::Reply(lines) => decoded.reply = lines.into_bytes(),
            Heard::Aside(text) => (self.setting.log)(LogLevel::Info, &text),
            Heard::Nothing => {}
        }
        Ok(decoded)
    }
    fn settle(&mut self, job: Job, response: Self::Response, life: u64) -> Option<Job> {
        job.responder.give(response.map(|value| Reply { value, life }).map_err(Fault::Raised));
        None
    }
    fn fail(&mut self, job: Job, failure: Failure) {
        let fault = match failure {
            Failure::Start(error) | Failure::Deaths { error, .. } => Fault::Outage(error),
            Failure::State { error, late: true } => Fault::Late(error),
            Failure::State { error, late: false } => Fault::Lost(error),
            // The dropped responder reports it.
            Failure::Shut => return,
        };
        job.responder.give(Err(fault));
    }
    fn is_bound(&self, job: &Job) -> bool {
        job.life.is_some()
    }
}

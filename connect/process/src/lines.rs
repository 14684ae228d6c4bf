//! Implements the wire of user-defined programs: lines of a [`ProgramProtocol`], with numbered responses.

use crate::fault::{ProgramException, ProgramFault};
use crate::folder::ProgramFolder;
use crate::output::ProgramLog;
use crate::program::ChildProgram;
use crate::protocol::{ProgramProtocol, ProtocolEvent, ProtocolSession};
use crate::response::{ProgramResponder, ProgramResponse};
use crate::supervisor::{DecodedFrame, LaneCapacity, WorkerFailure, WorkerWire};
use crate::wire::ProgramRequest;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::LogLevel;

/// Settings that all lanes of a program share.
pub struct LineSettings {
    /// Name of the program in messages: ``reward `process` (python3 my.py)``.
    pub place: String,
    pub folder: ProgramFolder,
    pub protocol: Arc<dyn ProgramProtocol>,
    pub timeout: Duration,
    pub variables: Vec<String>,
    pub log: ProgramLog,
}

/// A request with the responder of its result.
pub struct LineJob {
    /// Request; `None` requests the features that the program reported when it was ready.
    pub request: Option<ProgramRequest>,
    pub responder: ProgramResponder,
    /// Process with the request's state, if it has any.
    pub life: Option<u64>,
}

/// Protocol of one lane of a program.
pub struct LineWire {
    settings: Arc<LineSettings>,
    session: Box<dyn ProtocolSession>,
    /// Features that the process reported; `None` until it is ready.
    ready: Option<Value>,
    unsent: String,
}

impl LineWire {
    pub fn new(settings: Arc<LineSettings>) -> Self {
        let session = settings.protocol.start_session();
        Self { settings, session, ready: None, unsent: String::new() }
    }
}

impl WorkerWire for LineWire {
    type Job = LineJob;
    type Response = Result<Value, ProgramException>;
    /// A lane processes one job and begins the next one immediately. Further jobs would wait while other lanes are
    /// idle. Jobs of one lane cannot be processed by another lane.
    const CAPACITY: LaneCapacity = LaneCapacity { common: 2, own: 64, in_batches: false };

    fn start(&mut self) -> trainyard_core::Result<ChildProgram> {
        let LineSettings { place, folder, variables, log, .. } = &*self.settings;
        ChildProgram::start(folder, variables, log.clone()).map_err(|e| e.at(place))
    }
    fn greeting(&mut self) -> Vec<u8> {
        self.session = self.settings.protocol.start_session();
        self.ready = None;
        self.unsent.clear();
        self.session.opening().into_bytes()
    }
    fn is_ready(&self) -> bool {
        self.ready.is_some()
    }
    fn settle_unsent(&mut self, job: LineJob, life: Option<u64>) -> Option<LineJob> {
        if job.life.is_some() && job.life != life {
            job.responder.resolve(Err(ProgramFault::lost(&self.settings.place)));
            return None;
        }
        Some(job)
    }
    fn encode(&mut self, job: LineJob, number: u64, life: u64) -> Option<LineJob> {
        let Some(request) = &job.request else {
            let value = self.ready.clone().unwrap_or_default();
            job.responder.resolve(Ok(ProgramResponse { value, generation: life }));
            return None;
        };
        self.unsent.push_str(&request.line(number));
        Some(job)
    }
    fn take_bytes(&mut self) -> Option<(Vec<u8>, Duration)> {
        let lines = std::mem::take(&mut self.unsent);
        (!lines.is_empty()).then(|| (lines.into_bytes(), self.settings.timeout))
    }
    fn decode(&mut self, line: &[u8]) -> Result<DecodedFrame<Self::Response>, String> {
        let mut decoded = DecodedFrame::default();
        match self.session.parse_line(line)? {
            ProtocolEvent::Ready(_) if self.ready.is_some() => return Err("sent `ready` twice".to_string()),
            ProtocolEvent::Ready(ready) => self.ready = Some(ready),
            ProtocolEvent::Response(number, result) => decoded.responses.push((number, result)),
            ProtocolEvent::Send(lines) => decoded.reply = lines.into_bytes(),
            ProtocolEvent::Log(text) => (self.settings.log)(LogLevel::Info, &text),
            ProtocolEvent::Ignored => {}
        }
        Ok(decoded)
    }
    fn settle(&mut self, job: LineJob, response: Self::Response, life: u64) -> Option<LineJob> {
        job.responder.resolve(
            response.map(|value| ProgramResponse { value, generation: life }).map_err(ProgramFault::Exception),
        );
        None
    }
    fn fail(&mut self, job: LineJob, failure: WorkerFailure) {
        let fault = match failure {
            WorkerFailure::Start(error) | WorkerFailure::Deaths { error, .. } => ProgramFault::Outage(error),
            WorkerFailure::State { error, late: true } => ProgramFault::TimedOut(error),
            WorkerFailure::State { error, late: false } => ProgramFault::Lost(error),
            // The dropped responder reports the failure.
            WorkerFailure::Shut => return,
        };
        job.responder.resolve(Err(fault));
    }
    fn is_bound(&self, job: &LineJob) -> bool {
        job.life.is_some()
    }
}

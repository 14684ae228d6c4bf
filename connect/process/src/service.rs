//! Defines the interface of request handlers: processes of a program on this machine, or a remote service.

use crate::fault::ProgramFault;
use crate::response::PendingProgramResponse;
use crate::wire::ProgramRequest;
use serde::Serialize;
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// Location of a session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLocation {
    /// Number of the session, unique within the peer.
    pub session: u64,
    /// Lane of the session, below [`ProgramService::workers`].
    pub worker: usize,
    /// Number of the process that holds the state, from an earlier response; `None` for a request that begins the
    /// session.
    pub generation: Option<u64>,
}

/// A handler of requests. Its methods do not block.
pub trait ProgramService: Send + Sync {
    /// Returns the name of the peer in messages.
    fn place(&self) -> &str;
    /// Returns the number of lanes over which sessions are distributed.
    fn workers(&self) -> usize {
        1
    }
    /// Requests the features that the peer reported when it was ready. Starts the peer if necessary.
    fn ready(&self) -> PendingProgramResponse;
    /// Sends a request without a session.
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse;
    /// Sends an operation of a session. If the state is lost, the response is [`ProgramFault::Lost`].
    fn send_in_session(
        &self,
        session: SessionLocation,
        op: &str,
        body: Map<String, Value>,
    ) -> Result<PendingProgramResponse>;
}

impl dyn ProgramService + '_ {
    /// Sends the operation `op` without a session; `body` is a map of its keys.
    pub fn call(&self, op: &str, body: &impl Serialize) -> Result<PendingProgramResponse> {
        Ok(self.send(ProgramRequest::new(op, body)?))
    }
}

impl ProgramFault {
    /// Returns the fault of a session whose process has ended.
    pub fn lost(place: &str) -> Self {
        Self::Lost(Error::retryable("the process that held this state has ended").at(place))
    }
}

//! The interface of request handlers: processes of a program here, or a service elsewhere.

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
    /// Life of the response that left the state there; `None` for a request that begins the session.
    pub generation: Option<u64>,
}

/// A handler of requests. No method blocks.
pub trait ProgramService: Send + Sync {
    /// Returns the name of the peer in messages.
    fn place(&self) -> &str;
    /// Returns the number of lanes over which sessions are distributed.
    fn workers(&self) -> usize {
        1
    }
    /// Requests the features that the peer reported when it was ready, starting it if necessary.
    fn ready(&self) -> PendingProgramResponse;
    /// Sends a request without a session.
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse;
    /// Sends an operation of a session. Once the state is lost, the response is [`ProgramFault::Lost`].
    fn send_in_session(
        &self,
        session: SessionLocation,
        op: &str,
        body: Map<String, Value>,
    ) -> Result<PendingProgramResponse>;
}

impl dyn ProgramService + '_ {
    /// Sends a request without a session. `body` is a map of the keys of the operation `op`.
    pub fn call(&self, op: &str, body: &impl Serialize) -> Result<PendingProgramResponse> {
        Ok(self.send(ProgramRequest::new(op, body)?))
    }
}

impl ProgramFault {
    /// Returns the fault of a session that no longer exists.
    pub fn lost(place: &str) -> Self {
        Self::Lost(Error::retryable("the process that held this state has ended").at(place))
    }
}

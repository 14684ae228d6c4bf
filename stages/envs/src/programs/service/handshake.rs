//! Tracks the handshake with a service. All requests wait for one handshake.

use serde_json::Value;
use trainyard_core::Error;

/// The service's response to the handshake, or the error.
pub type HandshakeResult = Result<Value, Error>;

/// Continuation after the handshake.
pub type HandshakeCallback = Box<dyn FnOnce(HandshakeResult) + Send>;

/// State of the handshake.
#[derive(Default)]
pub enum HandshakeState {
    /// Not started, or the last attempt failed.
    #[default]
    Idle,
    /// In progress, with the waiting requests.
    InProgress(Vec<HandshakeCallback>),
    /// Completed, with the service's response.
    Done(Value),
}

/// Next step of a request that needs the service.
pub enum HandshakeStep {
    /// Continues immediately.
    Proceed(HandshakeCallback, Value),
    /// Waits and starts the handshake.
    Start,
    Wait,
}

impl HandshakeState {
    /// Registers a request that needs the service, and returns its next step.
    pub fn enter(&mut self, callback: HandshakeCallback) -> HandshakeStep {
        match self {
            Self::Done(ready) => HandshakeStep::Proceed(callback, ready.clone()),
            Self::InProgress(waiting) => {
                waiting.push(callback);
                HandshakeStep::Wait
            }
            Self::Idle => {
                *self = Self::InProgress(vec![callback]);
                HandshakeStep::Start
            }
        }
    }
    /// Ends the handshake and returns the waiting requests. After a failure the next request starts it again.
    pub fn end(&mut self, result: &HandshakeResult) -> Vec<HandshakeCallback> {
        let next = result.as_ref().map_or(Self::Idle, |ready| Self::Done(ready.clone()));
        match std::mem::replace(self, next) {
            Self::InProgress(waiting) => waiting,
            Self::Idle | Self::Done(_) => Vec::new(),
        }
    }
}

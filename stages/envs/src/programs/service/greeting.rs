//! Handshake with a service: one for all requests, which wait for it.

use serde_json::Value;
use trainyard_core::Error;

/// The service's answer to the handshake, or the error.
pub type Greeted = Result<Value, Error>;

/// Continuation after the handshake.
pub type Then = Box<dyn FnOnce(Greeted) + Send>;

/// The state of the handshake.
#[derive(Default)]
pub enum Greeting {
    /// Not begun, or the last try failed.
    #[default]
    Open,
    /// In progress, with the waiting requests.
    UnderWay(Vec<Then>),
    /// Completed, with the service's answer.
    Done(Value),
}

/// Next step of a request that needs the service.
pub enum Turn {
    /// Continues immediately.
    Now(Then, Value),
    /// Waits and starts the handshake.
    Greet,
    Wait,
}

impl Greeting {
    /// Registers a request that needs the service.
    pub fn enter(&mut self, then: Then) -> Turn {
        match self {
            Self::Done(ready) => Turn::Now(then, ready.clone()),
            Self::UnderWay(waiting) => {
                waiting.push(then);
                Turn::Wait
            }
            Self::Open => {
                *self = Self::UnderWay(vec![then]);
                Turn::Greet
            }
        }
    }
    /// Ends the handshake and returns the waiting requests. After a failure the next request starts it again.
    pub fn end(&mut self, greeted: &Greeted) -> Vec<Then> {
        let next = greeted.as_ref().map_or(Self::Open, |ready| Self::Done(ready.clone()));
        match std::mem::replace(self, next) {
            Self::UnderWay(waiting) => waiting,
            Self::Open | Self::Done(_) => Vec::new(),
        }
    }
}

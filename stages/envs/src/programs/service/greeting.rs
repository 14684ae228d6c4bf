//! The handshake with a service: one for all requests, which wait for it.

use serde_json::Value;
use trainyard_core::Error;

/// What the service said when it was greeted, or why it did not.
pub type Greeted = Result<Value, Error>;

/// Goes on once the service was greeted.
pub type Then = Box<dyn FnOnce(Greeted) + Send>;

/// The state of the handshake.
#[derive(Default)]
pub enum Greeting {
    /// Nobody has asked yet, or the last try failed.
    #[default]
    Open,
    /// It is under way; these wait.
    UnderWay(Vec<Then>),
    /// The service said this.
    Done(Value),
}

/// What to do with one that waits.
pub enum Turn {
    /// It goes on at once.
    Now(Then, Value),
    /// It waits, and the service has to be greeted.
    Greet,
    /// It waits.
    Wait,
}

impl Greeting {
    /// One that needs the service.
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
    /// The service was greeted; gives those that waited. After a failure the next one greets it again.
    pub fn end(&mut self, greeted: &Greeted) -> Vec<Then> {
        let next = greeted.as_ref().map_or(Self::Open, |ready| Self::Done(ready.clone()));
        match std::mem::replace(self, next) {
            Self::UnderWay(waiting) => waiting,
            Self::Open | Self::Done(_) => Vec::new(),
        }
    }
}

//! The interface between the server and the source of its answers.

use crate::answered::{Answered, Piece};
use crate::asked::Asked;
use crate::refusal::Refusal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Path before the API's own: empty for `/v1/chat/completions`, `/e/7` for `/e/7/v1/chat/completions`.
    pub base: String,
    /// Key of the request (`Authorization: Bearer` or `x-api-key`).
    pub key: Option<String>,
}

/// A model in the list of `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Name in requests.
    pub name: String,
    /// Maximum tokens of a prompt with its answer, if known.
    pub positions: Option<usize>,
}

/// Message from a desk during an answer.
#[derive(Debug)]
pub enum Told {
    /// A piece of one of the choices.
    Piece(Piece),
    /// The end: the whole answer, including pieces that were sent before.
    Done(Box<Answered>),
    /// The request failed.
    Refused(Refusal),
}

/// Sender of the answer. May be used from any thread, and never blocks. If it is dropped without an end, the request
/// fails with status 500.
#[derive(Debug)]
pub struct Reply(UnboundedSender<Told>);

impl Reply {
    /// Creates a sender and its receiver.
    pub fn new() -> (Self, UnboundedReceiver<Told>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }
    /// Sends a piece. Only required for streams: missing pieces are made from the whole answer.
    pub fn piece(&self, piece: Piece) {
        let _ = self.0.send(Told::Piece(piece));
    }
    /// Ends with the whole answer.
    pub fn done(self, answered: Answered) {
        let _ = self.0.send(Told::Done(Box::new(answered)));
    }
    /// Ends with a refusal.
    pub fn refuse(self, refusal: Refusal) {
        let _ = self.0.send(Told::Refused(refusal));
    }
    /// Returns whether the client has disconnected.
    pub fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// A request with the sender of its answer.
#[derive(Debug)]
pub struct Question {
    pub asked: Asked,
    pub caller: Caller,
    /// Receives the answer.
    pub reply: Reply,
}

/// Answers requests. Methods are called on threads of the server and must not block for long.
pub trait Desk: Send + Sync + 'static {
    /// Returns the models that a caller may name. Errors: a caller without a valid key, an episode that is over.
    fn models(&self, caller: &Caller) -> Result<Vec<Card>, Refusal>;
    /// Returns whether requests may use any name for the only model.
    fn any_name(&self) -> bool {
        false
    }
    /// Takes a request; its reply may be used now or later.
    fn ask(&self, question: Question);
    /// Returns the token ids of a literal text, with special tokens parsed.
    fn tokenize(&self, _caller: &Caller, _text: &str) -> Result<Vec<u32>, Refusal> {
        Err(Refusal::new(404, "texts are not tokenized here"))
    }
    /// Returns the number of tokens of a request's prompt.
    fn count(&self, _caller: &Caller, _asked: &Asked) -> Result<usize, Refusal> {
        Err(Refusal::new(404, "tokens are not counted here"))
    }
}

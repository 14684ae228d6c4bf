//! Who answers.

use crate::answered::{Answered, Piece};
use crate::asked::Asked;
use crate::refusal::Refusal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Where a request came in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// The path before the API's own: empty for `/v1/chat/completions`, `/e/7` for `/e/7/v1/chat/completions`.
    pub base: String,
    /// The key that it brought (`Authorization: Bearer` or `x-api-key`).
    pub key: Option<String>,
}

/// A model as `/v1/models` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The name that requests give.
    pub name: String,
    /// Most tokens of a prompt with its answer; none if that is not known.
    pub positions: Option<usize>,
}

/// What a desk tells while it answers.
#[derive(Debug)]
pub enum Told {
    /// A piece of one of the answers.
    Piece(Piece),
    /// The end: all of it, pieces that were told before included.
    Done(Box<Answered>),
    /// It came to nothing.
    Refused(Refusal),
}

/// The way back to whoever asked. May be used from any thread, and never blocks. Dropped without an end, it is one: the
/// request fails with status 500.
#[derive(Debug)]
pub struct Reply(UnboundedSender<Told>);

impl Reply {
    /// A way back, and its end.
    pub fn new() -> (Self, UnboundedReceiver<Told>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }
    /// Tells a piece. Only those who stream need to: pieces that nobody told are made of the whole answer.
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
    /// Whether nobody waits for the answer any more: the client has gone.
    pub fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// A request with the way back.
#[derive(Debug)]
pub struct Question {
    /// What is asked.
    pub asked: Asked,
    /// By whom.
    pub caller: Caller,
    /// Takes the answer.
    pub reply: Reply,
}

/// Answers requests. Methods are called on threads of the server and must not block for long.
pub trait Desk: Send + Sync + 'static {
    /// The models that a caller may name. Errors: a caller without a valid key, an episode that is over.
    fn models(&self, caller: &Caller) -> Result<Vec<Card>, Refusal>;
    /// Whether requests may name the only model as they like.
    fn any_name(&self) -> bool {
        false
    }
    /// Takes a request; its reply may be used now or later.
    fn ask(&self, question: Question);
    /// Token ids of a text as it is, special tokens understood.
    fn tokenize(&self, _caller: &Caller, _text: &str) -> Result<Vec<u32>, Refusal> {
        Err(Refusal::new(404, "texts are not tokenized here"))
    }
    /// Number of tokens of a request's prompt.
    fn count(&self, _caller: &Caller, _asked: &Asked) -> Result<usize, Refusal> {
        Err(Refusal::new(404, "tokens are not counted here"))
    }
}

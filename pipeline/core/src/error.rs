//! Defines the error type of every crate: a kind that determines the caller's reaction, a message, and a chain of
//! causes.
//!
//! Retry policy and exit codes depend only on the kind and on whether the attempt was preempted, never on the text
//! (`docs/workflows.md`).

use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::fmt;

/// Kind of an error, which determines the caller's reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// Invalid file, option or argument; a repetition fails in the same way.
    Invalid,
    /// Transient fault (network, a busy resource); the same call may succeed later.
    Retryable,
    /// The attempt's process, its machine or an object it needs has disappeared.
    Lost,
    /// The work was cancelled on request.
    Cancelled,
    /// An input has invalid content (corrupt file, incorrect schema, NaN).
    Data,
    /// A bug in Trainyard.
    Bug,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "invalid",
            Self::Retryable => "retryable",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Data => "data",
            Self::Bug => "bug",
        })
    }
}

/// An error: a kind, a message that names the subject and its context, a suggested remedy, and a chain of causes.
///
/// ```
/// use trainyard_core::{Error, ErrorKind};
///
/// let refused = std::io::Error::other("connection refused");
/// let error = Error::retryable("cannot write s3://bucket/x").help("run the same command again").caused_by(&refused);
/// let error = error.at("stage `sft`");
/// assert_eq!(error.to_string(), "stage `sft`: cannot write s3://bucket/x; run the same command again");
/// assert_eq!(error.kind, ErrorKind::Retryable);
/// assert_eq!(error.causes().collect::<Vec<_>>(), ["connection refused"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// Kind, which determines the caller's reaction.
    pub kind: ErrorKind,
    /// Lower-case, one sentence without a full stop.
    pub message: String,
    /// Suggested remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Whether a machine was taken away from an attempt that could otherwise have continued. Retry policy counts such
    /// attempts apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preempted: bool,
    /// Cause as text: a chain must survive the way from an attempt's process to the journal. In JSON, the list
    /// `causes`, nearest cause first.
    #[serde(default, rename = "causes", skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<Cause>>,
}

/// One link in a chain of causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Cause {
    message: String,
    source: Option<Box<Self>>,
}

/// Result of every fallible function in Trainyard.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error without help or cause.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), help: None, preempted: false, source: None }
    }
    /// Creates an error of kind [`ErrorKind::Invalid`].
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }
    /// Creates an error of kind [`ErrorKind::Retryable`].
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Retryable, message)
    }
    /// Creates an error of kind [`ErrorKind::Lost`].
    pub fn lost(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Lost, message)
    }
    /// Creates an error of kind [`ErrorKind::Cancelled`].
    pub fn cancelled(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Cancelled, message)
    }
    /// Creates an error of kind [`ErrorKind::Data`].
    pub fn data(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Data, message)
    }
    /// Creates an error of kind [`ErrorKind::Bug`].
    pub fn bug(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Bug, message)
    }
    /// Sets the suggested remedy; replaces earlier help.
    #[must_use]
    pub fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(help.to_string());
        self
    }
    /// Marks the error as that of a preempted attempt.
    #[must_use]
    pub fn by_preemption(mut self) -> Self {
        self.preempted = true;
        self
    }
    /// Prefixes the message with its context: `context: message`. Help and causes stay.
    #[must_use]
    pub fn at(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
    /// Appends an error and all its sources to the chain of causes, without text that a link repeats of the message or
    /// of another link.
    #[must_use]
    pub fn caused_by(mut self, cause: &(dyn StdError + 'static)) -> Self {
        let mut known = vec![self.message.clone()];
        known.extend(self.causes().map(str::to_string));
        let old = known.len();
        for words in distinct_messages(cause) {
            if !known.iter().any(|k| k.contains(&words)) {
                known.push(words);
            }
        }
        let mut end = &mut self.source;
        while let Some(cause) = end {
            end = &mut cause.source;
        }
        *end = Cause::chain(known.split_off(old));
        self
    }
    /// Returns the messages of the causes, nearest first.
    pub fn causes(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.source.as_deref(), |cause| cause.source.as_deref()).map(|c| c.message.as_str())
    }
}

impl Cause {
    fn chain(messages: Vec<String>) -> Option<Box<Self>> {
        let link = |source, message| Some(Box::new(Self { message, source }));
        messages.into_iter().rev().fold(None, link)
    }
}

/// Returns the messages of an error and its sources, each without the text that it repeats of the next one. Many
/// libraries print the source as the end of the message.
fn distinct_messages(error: &(dyn StdError + 'static)) -> Vec<String> {
    let chain = std::iter::successors(Some(error), |e| (*e).source());
    let texts: Vec<String> =
        chain.map(|e| e.downcast_ref::<Error>().map_or_else(|| e.to_string(), |e| e.message.clone())).collect();
    let without_source = |(at, text): (usize, &String)| {
        let prefix = texts.get(at + 1).and_then(|next| text.strip_suffix(next.as_str())).unwrap_or(text);
        prefix.trim_end_matches([':', '-', ' ', '(']).to_string()
    };
    texts.iter().enumerate().map(without_source).filter(|words| !words.is_empty()).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

impl TryFrom<Vec<String>> for Cause {
    type Error = &'static str;
    fn try_from(messages: Vec<String>) -> Result<Self, &'static str> {
        Self::chain(messages).map(|chain| *chain).ok_or("an error's list of causes is empty")
    }
}

impl From<Cause> for Vec<String> {
    fn from(cause: Cause) -> Self {
        std::iter::successors(Some(&cause), |c| c.source.as_deref()).map(|c| c.message.clone()).collect()
    }
}

/// Adds a context to the error of a [`Result`].
pub trait Context<T> {
    /// Prefixes the error's message with `context`, as [`Error::at`] does.
    fn at(self, context: impl fmt::Display) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn at(self, context: impl fmt::Display) -> Result<T> {
        self.map_err(|e| e.at(context))
    }
}

/// Converts the error of a file operation: a missing file is invalid, a full disk or an interruption retryable,
/// anything else data.
pub fn io_error(path: &std::path::Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        Io::NotFound => Error::invalid(message),
        Io::StorageFull => Error::retryable(message).help("free some space, then run the same command again"),
        Io::Interrupted | Io::TimedOut | Io::WouldBlock => Error::retryable(message),
        _ => Error::data(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error that prints its source as the end of its message, as in many libraries.
    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Self>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match &self.1 {
                Some(source) => write!(f, "{}: {source}", self.0),
                None => f.write_str(self.0),
            }
        }
    }

    impl StdError for Layer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    fn failed() -> Error {
        let layers = Layer("request failed", Some(Box::new(Layer("connect", Some(Box::new(Layer("refused", None)))))));
        Error::retryable("cannot read s3://b/x").caused_by(&layers)
    }

    #[test]
    fn every_cause_is_listed_once() {
        assert_eq!(failed().causes().collect::<Vec<_>>(), ["request failed", "connect", "refused"]);
        let error = Error::data("cannot read: refused").caused_by(&Layer("refused", None));
        assert_eq!(error.causes().count(), 0, "the message says it already");
        assert_eq!(failed().caused_by(&Layer("refused", None)), failed());
    }

    #[test]
    fn causes_survive_context_and_json() {
        let error = failed().at("stage `a`").help("try again");
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(json["causes"], serde_json::json!(["request failed", "connect", "refused"]));
        assert_eq!(serde_json::from_value::<Error>(json).unwrap(), error);
        let plain = serde_json::json!({"kind": "data", "message": "x"});
        assert_eq!(serde_json::from_value::<Error>(plain.clone()).unwrap(), Error::data("x"));
        assert_eq!(serde_json::to_value(Error::data("x")).unwrap(), plain, "without causes nothing is added");
    }

    #[test]
    fn causes_equal_the_source_chain() {
        let error = failed();
        let chain = std::iter::successors(error.source(), |e| (*e).source()).map(ToString::to_string);
        assert_eq!(chain.collect::<Vec<_>>(), ["request failed", "connect", "refused"]);
        let outer = Error::lost("the run stopped").caused_by(&error);
        assert_eq!(outer.causes().collect::<Vec<_>>()[..2], ["cannot read s3://b/x", "request failed"]);
    }
}

//! Limits of chat templates, which come with the models of strangers.
//!
//! A source is limited in size and in nesting, and is compiled and rendered on a thread whose stack suffices for both.
//! A rendering is limited in instructions (minijinja's fuel), in the text that its values hold, in their nesting, in
//! what it keeps and prints, also into captured texts (`set` blocks, macros), and in its output. Every limit is far
//! beyond the templates of published models.

use minijinja::{Error, ErrorKind};
use std::io::{self, Write};
use trainyard_core::panics::catch_quietly;

/// Maximum bytes of a source. Those of the longest published templates have 40 kB.
pub const SOURCE: usize = 256 << 10;
/// Maximum operators, calls and brackets in one tag. Each can nest the expression by one level.
pub const OPERATORS: usize = 1_000;
/// Maximum `elif` in a source. Each nests the conditions by one level.
pub const ALTERNATIVES: usize = 1_000;
/// Maximum bytes of text in one value, and of an output.
pub const TEXT: usize = 64 << 20;
/// Maximum bytes that all operations of a rendering take together: of texts, of kept values, and of what is printed.
pub const VOLUME: usize = 512 << 20;
/// Longest text between two tags, in bytes, that is printed for an instruction alone.
pub const UNCHARGED: usize = 64;
/// Maximum nesting of a value.
pub const DEPTH: usize = 100;
/// Maximum items of a value, with those of its items.
pub const ITEMS: usize = 1 << 20;

/// Bytes of the stack of the thread on which a template is compiled or rendered.
const STACK: usize = 64 << 20;

/// Returns the maximum instructions of a rendering. Some templates look at all messages again for every message.
pub fn fuel(messages: usize) -> u64 {
    let hundreds = (messages as u64).div_ceil(100).max(1);
    1_000_000_u64.saturating_mul(hundreds.saturating_mul(hundreds))
}

/// Calls a function on a separate thread with a stack of known size. Errors: the thread cannot be started, or the
/// function panics.
pub fn on_own_stack<T: Send>(call: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let failed = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    std::thread::scope(|scope| {
        let run = || catch_quietly(call);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        let thread = thread.map_err(|e| failed(format!("no thread for the template can be started: {e}")))?;
        let ended = thread.join().unwrap_or_else(|_| Err("no message".to_string()));
        ended.unwrap_or_else(|message| Err(failed(format!("the engine of templates panicked: {message}"))))
    })
}

/// Creates the error of a limit.
pub fn exceeded(what: &str, limit: usize) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what}, more than the limit of {limit}"))
}

/// Returns whether an error is that of a limit.
pub fn is_limit(error: &Error) -> bool {
    let words = |error: &Error| error.detail().is_some_and(|detail| detail.contains("more than the limit of"));
    matches!(error.kind(), ErrorKind::OutOfFuel | ErrorKind::WriteFailure) || words(error)
}

/// An output that ends with an error beyond [`TEXT`].
#[derive(Default)]
pub struct BoundedOutput(Vec<u8>);

impl BoundedOutput {
    /// Returns the text.
    pub fn into_text(self) -> Result<String, Error> {
        String::from_utf8(self.0).map_err(|e| Error::new(ErrorKind::WriteFailure, e.to_string()))
    }
}

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > TEXT {
            return Err(io::Error::other(format!("the text has more than {TEXT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

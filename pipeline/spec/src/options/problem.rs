//! Describes mistakes in options. A mistake is found at a pointer into the config and reported at a position in the
//! file, or to the engine.

use super::pointer::readable;
use crate::diagnostic::Diagnostic;
use crate::read::{BoundNode, locate};
use trainyard_core::OptionProblem;

/// A problem at a pointer, not yet at a position in a file.
#[derive(Debug)]
pub(super) struct Problem {
    pub code: &'static str,
    pub pointer: String,
    /// Whether the key is invalid, not its value.
    pub at_key: bool,
    /// Whether only the children's values decide (`anyOf`); a late child suppresses the problem.
    pub by_children: bool,
    pub message: String,
    pub help: Option<String>,
}

impl Problem {
    pub(super) fn is_due_to_late(&self, late: &[String]) -> bool {
        let inside =
            |outer: &str, inner: &str| inner == outer || inner.strip_prefix(outer).is_some_and(|r| r.starts_with('/'));
        late.iter().any(|l| inside(l, &self.pointer) || (self.by_children && inside(&self.pointer, l)))
    }
    pub(super) fn into_diagnostic(self, with: &BoundNode, owner: &str) -> Diagnostic {
        let (value, key) = locate(with, &self.pointer);
        let span = if self.at_key { key.unwrap_or(value) } else { value };
        Diagnostic::error(self.code, span, self.text(owner)).help_if(self.help)
    }
    pub(super) fn into_option_problem(self, owner: &str) -> OptionProblem {
        OptionProblem { message: self.text(owner), pointer: self.pointer, help: self.help }
    }
    /// Formats the message with the option's name.
    fn text(&self, owner: &str) -> String {
        let name = readable(&self.pointer);
        let subject = if name.is_empty() { format!("the options of {owner}") } else { format!("`{name}`") };
        self.message.replace("{}", &subject)
    }
}

/// Formats a problem's message, prefixed with the option's name unless the message contains it.
pub fn message_with_name(problem: &OptionProblem) -> String {
    let name = readable(&problem.pointer);
    if name.is_empty() || problem.message.contains(&name) {
        problem.message.clone()
    } else {
        format!("`{name}`: {}", problem.message)
    }
}

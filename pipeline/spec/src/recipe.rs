//! The top-level key `recipe`: what published system a workflow file shows, and what its toy scale cannot show.
//!
//! ```yaml
//! recipe:
//!   system: SimpleTIR
//!   source: arXiv 2509.02479
//!   mechanism: No trajectory with a void turn reaches the update.
//!   limits: Collapse needs long episodes of a large model.
//! ```
//!
//! The table of all systems is generated from these words. They are facts about the file, so expressions are not
//! allowed, and no digest sees them. `trainyard recipes` looks the parts up and checks the form of a recipe (two arms,
//! checks with roles).

use crate::diagnostic::Diagnostic;
use crate::read::has_expression;
use crate::tree::{Content, Entry, Node};
use crate::vocabulary::Place;
use crate::workflow::unknown_keys;
use serde::Serialize;

/// All are required.
pub const KEYS: [&str; 4] = ["system", "source", "mechanism", "limits"];

/// What a recipe says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The published system's name.
    pub system: String,
    /// Where it was published.
    pub source: String,
    /// One sentence: what distinguishes the treatment from the baseline.
    pub mechanism: String,
    /// What the toy scale cannot show.
    pub limits: String,
}

/// Reads the key's value. What is wrong is reported and left empty.
pub fn read(entry: &Entry, diagnostics: &mut Vec<Diagnostic>) -> Recipe {
    let Content::Map(entries) = &entry.value.content else {
        let d = Diagnostic::error(
            "wrong-type",
            entry.value.span,
            format!("`recipe` must be a map, found {}", entry.value.describe()),
        );
        diagnostics.push(d.help(format!("it holds {}", KEYS.join(", "))));
        return Recipe::default();
    };
    unknown_keys(entries, &KEYS, "`recipe`", Place::Other, diagnostics);
    let missing: Vec<&str> = KEYS.into_iter().filter(|key| !entries.iter().any(|e| e.key == *key)).collect();
    if !missing.is_empty() {
        let d = Diagnostic::error("missing-key", entry.key_span, format!("the recipe lacks {}", missing.join(", ")));
        diagnostics.push(d.help("the table of all systems shows them"));
    }
    let find = |key: &str| entries.iter().find(|e| e.key == key);
    let mut words =
        |key: &str| find(key).and_then(|e| text(&e.value, &format!("`{key}`"), diagnostics)).unwrap_or_default();
    let (system, source, mechanism, limits) = (words("system"), words("source"), words("mechanism"), words("limits"));
    Recipe { system, source, mechanism, limits }
}

/// Text without expressions, not empty.
fn text(node: &Node, what: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    let found = node.scalar().map(|s| s.text.trim()).filter(|t| !t.is_empty() && !node.is_null());
    if found.is_none() {
        diagnostics.push(Diagnostic::error(
            "wrong-type",
            node.span,
            format!("{what} must be text, found {}", node.describe()),
        ));
    } else if has_expression(node) {
        let d = Diagnostic::error("no-expression", node.span, format!("{what} must be plain text"));
        diagnostics.push(d.help("a recipe's description does not depend on parameters"));
        return None;
    }
    found.map(str::to_string)
}

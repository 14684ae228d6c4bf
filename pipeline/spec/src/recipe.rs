//! Reads the top-level key `recipe`: the published system that a workflow file reproduces, and the limits of its toy
//! scale.
//!
//! ```yaml
//! recipe:
//!   system: SimpleTIR
//!   source: arXiv 2509.02479
//!   mechanism: No trajectory with a void turn reaches the update.
//!   limits: Collapse needs long episodes of a large model.
//!   # Only where the claim is judged on several seeds:
//!   result: not_shown
//!   claim: Training does not diverge where plain GRPO does.
//!   world: word problems, from a cold start with a fifth of void turns
//!   tried: ["64 steps at 6e-4: the baseline itself falls"]
//! ```
//!
//! The table of all systems is generated from these words. They are facts about the file, so expressions are not
//! allowed, and no digest sees them. `trainyard recipes` looks the parts up and checks the form of a recipe (its arms,
//! checks with roles).

use crate::diagnostic::Diagnostic;
use crate::names::unknown_keys;
use crate::read::has_expression;
use crate::tree::{YamlContent, YamlEntry, YamlNode};
use crate::vocabulary::KeyContext;
use serde::{Deserialize, Serialize};

/// Required keys.
pub const KEYS: [&str; 4] = ["system", "source", "mechanism", "limits"];
/// Required keys of a recipe with a `result`.
const JUDGED: [&str; 2] = ["claim", "world"];
/// All keys.
const ALL: [&str; 8] = ["system", "source", "mechanism", "limits", "result", "claim", "world", "tried"];

/// Roles that a check may have.
pub const ROLES: [&str; 6] = ["mechanism", "premise", "effect", "placebo", "guard", "sanity"];
/// Roles that one seed judges. The others are judged on the pooled seeds of a recipe that declares its `result`.
const ONE_SEED: [&str; 2] = ["mechanism", "sanity"];

/// Whether checks of this role wait for several seeds.
pub fn is_pooled(role: &str) -> bool {
    !ONE_SEED.contains(&role)
}

/// Outcome of a recipe over its pooled seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipeResult {
    /// The premise, the effect and all guards hold, and the placebo does not move.
    Shown,
    /// The premise holds, but the effect, a guard or the placebo does not.
    NotShown,
    /// An interval is on the harmful side of 0 (the effect) or beyond the bound (a guard).
    Harm,
}

impl RecipeResult {
    /// All results.
    pub const ALL: [Self; 3] = [Self::Shown, Self::NotShown, Self::Harm];
    /// Names of the results, in the order of [`RecipeResult::ALL`].
    pub const NAMES: [&str; 3] = ["shown", "not_shown", "harm"];

    /// Returns the name in a workflow file.
    pub fn name(self) -> &'static str {
        Self::NAMES[Self::ALL.iter().position(|r| *r == self).unwrap_or_default()]
    }

    /// Parses a result by its name; `None` for an unknown name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|n| *n == name).map(|place| Self::ALL[place])
    }
}

/// Header of a recipe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecipeHeader {
    /// The published system's name.
    pub system: String,
    /// Publication of the system.
    pub source: String,
    /// Difference between the treatment and the baseline, in one sentence.
    pub mechanism: String,
    /// Limits of the toy scale.
    pub limits: String,
    /// Outcome over the pooled seeds; `None` where the recipe shows its mechanism alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<RecipeResult>,
    /// The gain that the source claims; empty without a `result`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// Problems and policy that the claim is judged on; empty without a `result`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub world: String,
    /// Other settings that were tried before, each with its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<String>,
}

/// Reads the value of the key `recipe`. Reports invalid parts and leaves them empty.
pub fn read(entry: &YamlEntry, diagnostics: &mut Vec<Diagnostic>) -> RecipeHeader {
    let YamlContent::Map(entries) = &entry.value.content else {
        let d = Diagnostic::error(
            "wrong-type",
            entry.value.span,
            format!("`recipe` must be a map, found {}", entry.value.describe()),
        );
        diagnostics.push(d.help(format!("it holds {}", ALL.join(", "))));
        return RecipeHeader::default();
    };
    unknown_keys(entries, &ALL, "`recipe`", KeyContext::Other, diagnostics);
    let find = |key: &str| entries.iter().find(|e| e.key == key);
    let judged = if find("result").is_some() { &JUDGED[..] } else { &[] };
    let missing: Vec<&str> = KEYS.iter().chain(judged).copied().filter(|key| find(key).is_none()).collect();
    if !missing.is_empty() {
        let d = Diagnostic::error("missing-key", entry.key_span, format!("the recipe lacks {}", missing.join(", ")));
        diagnostics.push(d.help("the table of all systems shows them"));
    }
    let mut words =
        |key: &str| find(key).and_then(|e| text(&e.value, &format!("`{key}`"), diagnostics)).unwrap_or_default();
    let (system, source, mechanism, limits) = (words("system"), words("source"), words("mechanism"), words("limits"));
    let (claim, world) = (words("claim"), words("world"));
    let result = find("result").and_then(|e| result(&e.value, diagnostics));
    let tried = find("tried").map(|e| tried(&e.value, diagnostics)).unwrap_or_default();
    RecipeHeader { system, source, mechanism, limits, result, claim, world, tried }
}

fn result(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) -> Option<RecipeResult> {
    let name = text(node, "`result`", diagnostics)?;
    let found = RecipeResult::parse(&name);
    if found.is_none() {
        let d = Diagnostic::error("bad-value", node.span, format!("a recipe has no result `{name}`"));
        diagnostics.push(d.help(format!("one of {}", RecipeResult::NAMES.join(", "))));
    }
    found
}

fn tried(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) -> Vec<String> {
    let YamlContent::List(items) = &node.content else {
        let message = format!("`tried` must be a list of texts, found {}", node.describe());
        diagnostics.push(Diagnostic::error("wrong-type", node.span, message));
        return Vec::new();
    };
    items.iter().filter_map(|item| text(item, "an entry of `tried`", diagnostics)).collect()
}

/// Reads a text that is not empty and contains no expression; reports any other value.
fn text(node: &YamlNode, subject: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    let found = node.scalar().map(|s| s.text.trim()).filter(|t| !t.is_empty() && !node.is_null());
    if found.is_none() {
        diagnostics.push(Diagnostic::error(
            "wrong-type",
            node.span,
            format!("{subject} must be text, found {}", node.describe()),
        ));
    } else if has_expression(node) {
        let d = Diagnostic::error("no-expression", node.span, format!("{subject} must be plain text"));
        diagnostics.push(d.help("a recipe's description does not depend on parameters"));
        return None;
    }
    found.map(str::to_string)
}

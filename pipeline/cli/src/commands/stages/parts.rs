//! The documentation of parts, by folder and kind (`losses/clip`): what `rl` composes, from the registries.
//!
//! Why here: a method is a composition of parts, so whoever writes one reads the parts' formulas, options and sources where the stages'
//! are. Refuses: nothing; an unknown name is not found.

use serde_json::Value;
use trainyard_envs::{environments, rewards};
use trainyard_learn::{Kinds, registry};

/// One part.
pub struct PartPage {
    /// `losses/clip`.
    pub name: String,
    pub summary: String,
    /// Formula, shapes, constants, source; empty where the options say all.
    pub doc: String,
    pub options: Value,
}

/// All parts that the stage `rl` takes, by folder, then by kind.
pub fn of_rl() -> Vec<PartPage> {
    let mut pages = Vec::new();
    pages.extend(learned("advantages", &registry::advantages()));
    pages.extend(learned("corrections", &registry::corrections()));
    pages.extend(learned("curricula", &registry::curricula()));
    pages.extend(environments::registry::kinds().iter().map(|k| page("environments", k.name, k.summary, "", (k.schema)())));
    pages.extend(learned("filters", &registry::filters()));
    pages.extend(learned("losses", &registry::loss_terms()));
    pages.extend(learned("modulations", &registry::modulations()));
    pages.extend(learned("replay", &registry::replays()));
    pages.extend(rewards::registry::kinds().iter().map(|k| page("rewards", k.name, k.summary, "", (k.schema)())));
    pages.extend(learned("strategies", &registry::strategies()));
    pages
}

fn learned<T: ?Sized>(folder: &str, kinds: &Kinds<T>) -> Vec<PartPage> {
    kinds.list.iter().map(|k| page(folder, k.kind, k.summary, k.doc, k.branch())).collect()
}

fn page(folder: &str, kind: &str, summary: &str, doc: &str, options: Value) -> PartPage {
    PartPage { name: format!("{folder}/{kind}"), summary: summary.into(), doc: doc.into(), options }
}

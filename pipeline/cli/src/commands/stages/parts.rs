//! The documentation of parts, by folder and kind (`losses/clip`): what `rl` composes, from the registries.
//!
//! Why here: a method is a composition of parts, so whoever writes one reads the parts' formulas, options and sources where the stages'
//! are. Refuses: nothing; an unknown name is not found.

use serde_json::Value;
use trainyard_api::{Kinds, PartKind};
use trainyard_envs::{environments, rewards};
use trainyard_learn::registry;

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
    pages.extend(listed("advantages", &registry::advantages()));
    pages.extend(listed("corrections", &registry::corrections()));
    pages.extend(listed("curricula", &registry::curricula()));
    pages.extend(listed("environments", &environments::registry::kinds()));
    pages.extend(listed("filters", &registry::filters()));
    pages.extend(listed("losses", &registry::loss_terms()));
    pages.extend(listed("modulations", &registry::modulations()));
    pages.extend(listed("replay", &registry::replays()));
    pages.extend(listed("rewards", &rewards::registry::kinds()));
    pages.extend(listed("strategies", &registry::strategies()));
    pages
}

fn listed<B>(folder: &str, kinds: &Kinds<B>) -> Vec<PartPage> {
    let page = |kind: &PartKind<B>| PartPage {
        name: format!("{folder}/{}", kind.name),
        summary: kind.summary.into(),
        doc: kind.doc.into(),
        options: kind.branch(),
    };
    kinds.list.iter().map(page).collect()
}

//! The documentation of parts, by folder and kind (`losses/clip`): what stages compose, from the registries.
//!
//! Why here: a method is a composition of parts, so whoever writes one reads the parts' formulas, options and sources
//! where the stages' are. Refuses: nothing; an unknown name is not found.

use serde_json::Value;
use trainyard_api::{Kinds, PartKind};
use trainyard_core::Metric;
use trainyard_data::filter;
use trainyard_envs::{environments, formats, rewards, tools, verifiers};
use trainyard_learn::registry;

/// One part.
pub struct PartPage {
    /// `losses/clip`.
    pub name: String,
    pub summary: String,
    /// Formula, shapes, constants, source; empty where the summary says all.
    pub doc: String,
    /// Their schema; null for parts that are only named.
    pub options: Value,
    /// As manifests name them.
    pub metrics: Vec<Metric>,
}

/// All parts of this build.
pub fn all() -> Vec<PartPage> {
    ["rl", "data/filter"].into_iter().flat_map(of).collect()
}

/// The parts that a stage kind takes, by folder, then by kind.
pub fn of(stage: &str) -> Vec<PartPage> {
    match stage {
        "rl" => of_rl(),
        "data/filter" => listed("rules", &filter::registry::rules()),
        _ => Vec::new(),
    }
}

fn of_rl() -> Vec<PartPage> {
    let mut pages = Vec::new();
    pages.extend(listed("advantages", &registry::advantages()));
    pages.extend(listed("corrections", &registry::corrections()));
    pages.extend(listed("curricula", &registry::curricula()));
    pages.extend(listed("environments", &environments::registry::kinds()));
    pages.extend(listed("filters", &registry::filters()));
    pages.extend(formats::registry::summaries().into_iter().map(|(name, summary)| named("formats", name, summary, "")));
    pages.extend(listed("losses", &registry::loss_terms()));
    pages.extend(listed("modulations", &registry::modulations()));
    pages.extend(listed("replay", &registry::replays()));
    pages.extend(listed("rewards", &rewards::registry::kinds()));
    pages.extend(listed("strategies", &registry::strategies()));
    pages.extend(tools::registry::tools().iter().map(|tool| {
        let about = tool.spec().description;
        named("tools", tool.name(), about.split(['.', ':']).next().unwrap_or_default(), &about)
    }));
    pages.extend(verifiers::registry::verifiers().iter().map(|v| named("verifiers", v.kind(), v.summary(), "")));
    pages
}

fn listed<B>(folder: &str, kinds: &Kinds<B>) -> Vec<PartPage> {
    let page = |kind: &PartKind<B>| PartPage {
        options: kind.branch(),
        metrics: kind.metrics.iter().map(|m| m.clone().of(kind.name)).collect(),
        ..named(folder, kind.name, kind.summary, kind.doc)
    };
    kinds.list.iter().map(page).collect()
}

fn named(folder: &str, kind: &str, summary: &str, doc: &str) -> PartPage {
    PartPage {
        name: format!("{folder}/{kind}"),
        summary: summary.into(),
        doc: doc.into(),
        options: Value::Null,
        metrics: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_page_of_its_own() {
        let pages = all();
        let mut names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert!(
            pages.iter().all(|page| !page.summary.is_empty() && (page.options.is_null() || !page.doc.is_empty())),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), pages.len());
    }
}

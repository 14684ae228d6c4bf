//! Checks the key `beside`, which names the stage with which a stage starts and ends, such as a client of its server.
//!
//! All stages of a group start at the same time, so each waits for the dependencies of all of them. Their links are
//! merged before the graph is checked.

use super::checker::{Checker, StageLink};
use crate::diagnostic::Diagnostic;
use crate::expand::{InstanceBody, ReferenceScope};
use crate::plan::{Edge, PlanNode};
use crate::read::{Binder, ValueReader};
use crate::tree::YamlEntry;
use crate::workflow::StageBody;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::StageKey;

/// Keys that a stage with `beside` cannot have, because it publishes nothing and runs only with its lead, each with a
/// help text.
const NOT_BESIDE: [(&str, &str); 4] = [
    ("outputs", "a stage with `beside` publishes nothing; declare outputs on the stage that it names"),
    ("checks", "a stage with `beside` publishes nothing; set checks on the stage that it names"),
    ("when", "a stage with `beside` runs with the stage that it names; put the condition there"),
    ("for_each", "instances of a list do not start together; `matrix` on both stages makes groups of two"),
];

impl Checker<'_> {
    /// Returns the stage that the key names. The inner `None` means that the key is absent, the outer that it is
    /// invalid (reported).
    pub(super) fn beside(&mut self, draft: usize, view: &ReferenceScope<'_>) -> Option<Option<StageKey>> {
        let expanded = self.expanded;
        let raw = expanded.raw(draft);
        let Some(entry) = raw.entry("beside") else { return Some(None) };
        let mut good = true;
        for (key, help) in NOT_BESIDE {
            if let Some(found) = raw.entry(key) {
                let message = format!("`{key}` cannot be set on a stage that runs beside another");
                self.report(Diagnostic::error("misplaced-key", found.key_span, message).help(help));
                good = false;
            }
        }
        let bound = Binder { sources: &expanded.sources, names: view, text: false, diagnostics: &mut self.diagnostics }
            .bind(&entry.value)?;
        let id = ValueReader { diagnostics: &mut self.diagnostics }.string(&bound, "`beside`")?;
        let lead = self.lead(draft, view, &id, entry)?;
        good.then(|| Some(expanded.key(lead).clone()))
    }

    /// Finds the single instance that the key refers to. It must be a command, since the stages of a group find each
    /// other through environment variables.
    fn lead(&mut self, draft: usize, view: &ReferenceScope<'_>, id: &str, entry: &YamlEntry) -> Option<usize> {
        let expanded = self.expanded;
        let refuse = |this: &mut Self, message: String, help: &str| {
            this.report(Diagnostic::error("beside", entry.value.span, message).help(help));
            None
        };
        let group = match view.group(id) {
            Ok(group) => group,
            Err(error) => {
                self.report_unresolved(error, entry.value.span);
                return None;
            }
        };
        let [member] = view.instances(group) else {
            let message = format!("`{id}` has several instances, and a stage runs beside one");
            return refuse(self, message, "give both stages the same `matrix`: then each instance has its own group");
        };
        let InstanceBody::Draft(lead) = member.body else {
            let message = format!("`{id}` is an embedded workflow, not a stage");
            return refuse(self, message, "put `beside` into that file");
        };
        let raw = expanded.raw(lead);
        if lead == draft {
            return refuse(self, "a stage cannot run beside itself".into(), "name the stage that it serves");
        }
        if raw.body != StageBody::Run {
            let message = format!("`{id}` is not a command, and only commands get the addresses of their group");
            return refuse(self, message, "both stages of a group must have `run`");
        }
        if expanded.drafts[lead].late.is_some() {
            let message = format!("`{id}` is repeated over a list that is not known yet");
            return refuse(self, message, "`matrix` on both stages makes groups of two");
        }
        if raw.get("beside").is_some() {
            let message = format!("`{id}` runs beside another stage itself");
            return refuse(self, message, "name the same stage in `beside` of all stages of a group");
        }
        Some(lead)
    }

    /// Links each stage of a group to the dependencies of all of them. Reports a stage that depends on another one of
    /// its group, since such a group would never start.
    pub(super) fn groups(&mut self, nodes: &[Option<PlanNode>]) {
        let mut groups: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (draft, node) in nodes.iter().enumerate() {
            let lead = node.as_ref().and_then(|n| n.beside.as_ref()).and_then(|key| self.index.get(key.0.as_str()));
            if let Some(lead) = lead {
                groups.entry(*lead).or_insert_with(|| BTreeSet::from([*lead])).insert(draft);
            }
        }
        for members in groups.values() {
            let (inside, outside): (Vec<StageLink>, Vec<StageLink>) =
                self.links.iter().filter(|l| members.contains(&l.to)).cloned().partition(|l| members.contains(&l.from));
            for link in inside {
                let name = |draft: usize| self.expanded.raw(draft).id.clone();
                let message = format!("`{}` waits for `{}` here, and starts with it", name(link.to), name(link.from));
                let help = "stages of a group reach each other by the addresses in their environment";
                self.report(Diagnostic::error("beside", link.span, message).help(help));
            }
            for link in &outside {
                let others = members.iter().filter(|member| **member != link.to);
                let order = |to: &usize| StageLink { to: *to, edge: Edge::Order, ports: None, ..link.clone() };
                self.links.extend(others.map(order).collect::<Vec<_>>());
            }
        }
    }
}

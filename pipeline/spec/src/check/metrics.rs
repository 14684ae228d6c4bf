//! Names of metrics, in checks, late expressions and options, against what stages declare.
//!
//! What a stage reports may depend on its options and on the stages behind its inputs (`compare`, `report`), so this
//! pass runs last, in topological order. A stage whose options are not known before the run is held to what its kind
//! may report at all.

use super::bounds::Placed;
use super::{Checker, Order};
use crate::diagnostic::{Diagnostic, Span, nearest, suggest};
use crate::plan::{Check, InputBinding, Node};
use crate::read::{Bound, Trouble, locate};
use crate::workflow::Body;
use std::rc::Rc;
use trainyard_core::{Declared, Metric, Of, Producer, Producers};

/// A metric that a check or an expression names.
pub(super) struct Use {
    /// The stage that is to report it.
    pub draft: usize,
    pub metric: String,
    pub of: Option<Of>,
    pub metric_span: Span,
    pub of_span: Span,
}

impl Checker<'_> {
    /// Keeps the names that a stage's checks use; those of a command are not declared anywhere.
    pub(super) fn keep_uses(&mut self, draft: usize, known: bool, checks: Vec<Placed>) -> Vec<Check> {
        let named = |p: &Placed| Use {
            draft,
            metric: p.check.metric.clone(),
            of: p.check.of,
            metric_span: p.metric,
            of_span: p.of.unwrap_or(p.metric),
        };
        if known {
            self.uses.extend(checks.iter().map(named));
        }
        checks.into_iter().map(|p| p.check).collect()
    }

    /// Judges all names that were used.
    pub(super) fn metrics(&mut self, nodes: &[Option<Node>], order: Option<&Order>) {
        let mut declared: Vec<Option<Declared>> = (0..nodes.len()).map(|draft| self.of_kind(draft)).collect();
        let kinds = declared.clone();
        for &draft in order.map_or(&[][..], |order| order.drafts.as_slice()) {
            if let Some(node) = &nodes[draft] {
                self.exact(draft, node, &kinds, &mut declared);
            }
        }
        for used in std::mem::take(&mut self.uses) {
            let Some(found) = &declared[used.draft] else { continue };
            let who = format!("stage `{}`", self.expanded.raw(used.draft).id);
            if let Err((trouble, of)) = judge(found, &who, &used.metric, used.of) {
                let span = if of { used.of_span } else { used.metric_span };
                self.trouble(trouble, span);
            }
        }
    }

    /// What the stage's kind may report under any options; none for a command.
    fn of_kind(&self, draft: usize) -> Option<Declared> {
        let Body::Kind { name, .. } = &self.expanded.raw(draft).body else { return None };
        self.expanded.catalogue.kind(name).map(|info| info.metrics.clone())
    }

    /// Replaces what the kind may report by what this stage will.
    fn exact(&mut self, draft: usize, node: &Node, kinds: &[Option<Declared>], declared: &mut [Option<Declared>]) {
        let Some(settled) = self.settled.get(&draft) else { return };
        let producers = self.producers(&node.inputs, kinds, declared);
        declared[draft] = Some(settled.declared(&producers));
        for read in settled.metrics_read(&producers) {
            let Some(behind) = producers.get(&read.port) else { continue };
            let open = |p: &Producer| p.declared.as_ref().is_none_or(|d| d.open);
            let knows = |p: &Producer| {
                p.kind.metric(&read.name).is_some()
                    || p.declared.as_ref().is_some_and(|d| d.metric(&read.name).is_some())
            };
            if behind.iter().any(|p| open(p) || knows(p)) {
                continue;
            }
            let span =
                self.withs.get(&draft).map_or(self.expanded.raw(draft).id_span, |with| locate(with, &read.pointer).0);
            let all: Vec<&Metric> =
                behind.iter().flat_map(|p| p.declared.iter().flat_map(|d| &d.metrics).chain(&p.kind.metrics)).collect();
            let message = format!("nothing behind `{}` reports a metric `{}`", read.port, read.name);
            let help = renamed(&read.name, all.iter().copied())
                .or_else(|| suggest(&read.name, all.iter().map(|m| m.name.as_str())));
            self.report(Diagnostic::error("unknown-metric", span, message).help_if(help));
        }
    }

    fn producers(
        &self,
        inputs: &[InputBinding],
        kinds: &[Option<Declared>],
        declared: &[Option<Declared>],
    ) -> Producers {
        let producer = |stage: &str| {
            let Some(&draft) = self.index.get(stage) else { return Producer::default() };
            let repeated = self.expanded.drafts[draft].late.is_some();
            let kind = kinds[draft].clone().unwrap_or_default();
            Producer { declared: declared[draft].clone().filter(|_| !repeated), kind }
        };
        let behind = |input: &InputBinding| input.from.iter().map(|of| producer(&of.stage.0)).collect();
        inputs.iter().map(|input| (input.port.clone(), behind(input))).collect()
    }

    /// Keeps the options as written, for places in later diagnostics.
    pub(super) fn keep_with(&mut self, draft: usize, with: Bound) {
        self.withs.insert(draft, Rc::new(with));
    }
}

/// Whether such a number is reported; if not, what is wrong, and whether `of` is to blame.
pub(crate) fn judge(declared: &Declared, who: &str, name: &str, of: Option<Of>) -> Result<(), (Trouble, bool)> {
    let unknown =
        |message: String, help: Option<String>| Err((Trouble::new("unknown-metric", message).help(help), false));
    match (of, declared.metric(name), declared.comparison(name)) {
        (None, Some(_), _) | (Some(_), _, Some(_)) => Ok(()),
        (None, None, Some(_)) => {
            let message = format!("`{name}` is a comparison in {who}: say which number of it");
            let help = format!("add `of: difference`, or another of: {}", Of::NAMES.join(", "));
            Err((Trouble::new("missing-of", message).help(Some(help)), false))
        }
        _ if declared.open => Ok(()),
        (Some(of), Some(_), None) => {
            let message = format!("`{name}` of {who} is one number, so it has no `{}`", of.name());
            Err((Trouble::new("no-comparison", message).help(Some("leave out `of`".into())), true))
        }
        (Some(_), None, None) if declared.comparisons.is_empty() => {
            let message = format!("{who} compares nothing, so its metrics have no `of`");
            Err((Trouble::new("no-comparison", message).help(Some("leave out `of`".into())), true))
        }
        (Some(_), None, None) => {
            let rows = declared.comparisons.iter();
            let help = renamed(name, rows.clone()).or_else(|| suggest(name, rows.map(|m| m.name.as_str())));
            unknown(format!("{who} does not compare `{name}`"), help)
        }
        (None, None, None) => {
            let help = glued(declared, name).or_else(|| renamed(name, declared.metrics.iter())).or_else(|| {
                suggest(name, declared.metrics.iter().chain(&declared.comparisons).map(|m| m.name.as_str()))
            });
            unknown(format!("{who} reports no metric `{name}`"), help)
        }
    }
}

/// For a name from before metrics had the names of their parts.
fn renamed<'m>(name: &str, mut metrics: impl Iterator<Item = &'m Metric>) -> Option<String> {
    metrics.find(|m| m.former.as_deref() == Some(name)).map(|m| format!("it is called `{}` now", m.name))
}

/// For a name from before comparisons had rows: `difference_low_tokens` was `{metric: tokens, of: low}`.
fn glued(declared: &Declared, name: &str) -> Option<String> {
    const PREFIXES: [(&str, Of); 6] = [
        ("difference_low", Of::Low),
        ("difference_high", Of::High),
        ("difference", Of::Difference),
        ("problems", Of::N),
        ("a", Of::A),
        ("b", Of::B),
    ];
    let form = |row: &Metric, of: Of| format!("write `{{metric: {}, of: {}, …}}`", row.name, of.name());
    PREFIXES.into_iter().find_map(|(prefix, of)| {
        let rest = name.strip_prefix(prefix)?;
        if rest.is_empty() {
            return declared.comparisons.first().map(|row| form(row, of));
        }
        let rest = rest.strip_prefix('_')?;
        let flat = |name: &str| name.replace(['.', '-'], "_");
        let same = |row: &&Metric| flat(&row.name) == rest || row.former.as_deref() == Some(rest);
        let exact = declared.comparisons.iter().find(same);
        let near = || nearest(rest, declared.comparisons.iter().map(|m| m.name.as_str()));
        exact.or_else(|| near().and_then(|name| declared.comparison(name))).map(|row| form(row, of))
    })
}

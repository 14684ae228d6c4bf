//! Checks `when` and `needs` of a stage and of its embedding stages.

use super::checker::{Checker, StageLink};
use crate::diagnostic::Diagnostic;
use crate::expand::ReferenceScope;
use crate::expression::{BinaryOperator, ExprType, Expression, Term};
use crate::plan::{Edge, RunCondition};
use crate::read::{Binder, BoundContent, BoundNode, ValueReader};
use crate::tree::YamlNode;
use serde_json::Value;

impl<'e> Checker<'e> {
    /// Returns the scopes and stages whose envelope applies to a draft: those of the draft, then of its embedding
    /// stages from the inside out.
    fn enclosing_stages(&self, draft: usize) -> Vec<(ReferenceScope<'e>, &'e crate::workflow::RawStage)> {
        let expanded = self.expanded;
        let d = &expanded.drafts[draft];
        let mut homes = vec![(ReferenceScope::of(expanded, d, None), expanded.raw(draft))];
        let mut parent = expanded.workflow_instances[d.workflow].parent.as_ref();
        while let Some(p) = parent {
            let view = ReferenceScope::at(expanded, p.workflow, Some(p.stage), &p.coordinates);
            homes.push((view, &expanded.workflow_instances[p.workflow].workflow.stages[p.stage]));
            parent = expanded.workflow_instances[p.workflow].parent.as_ref();
        }
        homes
    }

    pub(super) fn when(&mut self, draft: usize) -> Option<RunCondition> {
        let mut late: Option<Expression> = None;
        let mut never = None;
        let mut good = true;
        for (view, raw) in self.enclosing_stages(draft) {
            let Some(node) = raw.get("when") else { continue };
            match self.condition(&view, node) {
                None => good = false,
                Some(ParsedCondition::Known(true)) => {}
                Some(ParsedCondition::Known(false)) => never = Some(format!("`when: {}` is false", text(node))),
                Some(ParsedCondition::Late(e)) => {
                    let references: Vec<_> = e.references().into_iter().cloned().collect();
                    self.link_late(draft, &references.iter().collect::<Vec<_>>(), node.span);
                    late = Some(match late {
                        None => e,
                        Some(other) => Expression {
                            range: 0..0,
                            kind: Term::Binary(BinaryOperator::And, Box::new(e), Box::new(other)),
                        },
                    });
                }
            }
        }
        if !good {
            return None;
        }
        Some(match (never, late) {
            (Some(why), _) => RunCondition::Never(why),
            (None, Some(e)) => RunCondition::Late(e),
            (None, None) => RunCondition::Always,
        })
    }

    fn condition(&mut self, view: &ReferenceScope<'_>, node: &YamlNode) -> Option<ParsedCondition> {
        let bound =
            Binder { sources: &self.expanded.sources, names: view, text: false, diagnostics: &mut self.diagnostics }
                .bind(node)?;
        if let BoundContent::Expression(e) = &bound.content {
            return match e.check_types() {
                Ok(ExprType::Bool | ExprType::Any) => Some(ParsedCondition::Late(e.clone())),
                Ok(other) => {
                    self.report(
                        Diagnostic::error(
                            "wrong-type",
                            bound.span,
                            format!("`when` must be true or false, but is {other}"),
                        )
                        .help("write a comparison, as in `params.steps > 100`"),
                    );
                    None
                }
                // The binder cannot check a list of metrics; the engine does.
                Err(_) => Some(ParsedCondition::Late(e.clone())),
            };
        }
        match bound.value() {
            Some(Value::Bool(b)) => Some(ParsedCondition::Known(b)),
            _ => {
                let d = Diagnostic::error(
                    "wrong-type",
                    bound.span,
                    format!("`when` must be true or false, found {}", bound.describe()),
                );
                self.report(d.help("write an expression: `when: ${{ stages.gate.metrics.accuracy > 0.2 }}`"));
                None
            }
        }
    }

    /// Links every stage under `needs`; false if one does not exist.
    pub(super) fn needs(&mut self, draft: usize) -> bool {
        let mut good = true;
        for (view, raw) in self.enclosing_stages(draft) {
            let Some(node) = raw.get("needs") else { continue };
            let Some(bound) = Binder {
                sources: &self.expanded.sources,
                names: &view,
                text: false,
                diagnostics: &mut self.diagnostics,
            }
            .bind(node) else {
                good = false;
                continue;
            };
            let items: &[BoundNode] = match &bound.content {
                BoundContent::List(items) => items,
                _ => std::slice::from_ref(&bound),
            };
            for item in items {
                good &= self.need(draft, &view, item).is_some();
            }
        }
        good
    }

    fn need(&mut self, draft: usize, view: &ReferenceScope<'_>, item: &BoundNode) -> Option<()> {
        let id = ValueReader { diagnostics: &mut self.diagnostics }.string(item, "an item of `needs`")?;
        let group = match view.group(&id) {
            Ok(group) => group,
            Err(error) => {
                self.report_unresolved(error, item.span);
                return None;
            }
        };
        for from in self.expanded.drafts_of(view.instances(group)) {
            self.links.push(StageLink { from, to: draft, edge: Edge::Order, ports: None, span: item.span });
        }
        Some(())
    }
}

enum ParsedCondition {
    Known(bool),
    Late(Expression),
}

fn text(node: &YamlNode) -> String {
    node.scalar().map(|s| crate::tree::shorten(&s.text)).unwrap_or_default()
}

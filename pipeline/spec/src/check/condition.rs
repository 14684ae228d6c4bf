//! `when` and `needs`, those of the embedding stages included.

use super::checker::{Checker, Link};
use crate::diagnostic::Diagnostic;
use crate::expand::View;
use crate::expression::{Binary, Expression, Term, Type};
use crate::plan::{Edge, When};
use crate::read::{Binder, Bound, BoundContent, Reader};
use crate::tree::Node;
use serde_json::Value;

impl<'e> Checker<'e> {
    /// Returns the places whose envelope applies to a draft: the draft, then its embedding stages from the inside out.
    fn homes(&self, draft: usize) -> Vec<(View<'e>, &'e crate::workflow::RawStage)> {
        let expanded = self.expanded;
        let d = &expanded.drafts[draft];
        let mut homes = vec![(View::of(expanded, d, None), expanded.raw(draft))];
        let mut parent = expanded.spaces[d.space].parent.as_ref();
        while let Some(p) = parent {
            let view = View::at(expanded, p.space, Some(p.stage), &p.coordinates);
            homes.push((view, &expanded.spaces[p.space].workflow.stages[p.stage]));
            parent = expanded.spaces[p.space].parent.as_ref();
        }
        homes
    }

    pub(super) fn when(&mut self, draft: usize) -> Option<When> {
        let mut late: Option<Expression> = None;
        let mut never = None;
        let mut good = true;
        for (view, raw) in self.homes(draft) {
            let Some(node) = raw.get("when") else { continue };
            match self.condition(&view, node) {
                None => good = false,
                Some(Condition::Known(true)) => {}
                Some(Condition::Known(false)) => never = Some(format!("`when: {}` is false", text(node))),
                Some(Condition::Late(e)) => {
                    let references: Vec<_> = e.references().into_iter().cloned().collect();
                    self.link_late(draft, &references.iter().collect::<Vec<_>>(), node.span);
                    late = Some(match late {
                        None => e,
                        Some(other) => {
                            Expression { range: 0..0, term: Term::Binary(Binary::And, Box::new(e), Box::new(other)) }
                        }
                    });
                }
            }
        }
        if !good {
            return None;
        }
        Some(match (never, late) {
            (Some(why), _) => When::Never(why),
            (None, Some(e)) => When::Late(e),
            (None, None) => When::Always,
        })
    }

    fn condition(&mut self, view: &View<'_>, node: &Node) -> Option<Condition> {
        let bound =
            Binder { sources: &self.expanded.sources, names: view, text: false, diagnostics: &mut self.diagnostics }
                .bind(node)?;
        if let BoundContent::Expression(e) = &bound.content {
            return match e.check_types() {
                Ok(Type::Bool | Type::Any) => Some(Condition::Late(e.clone())),
                Ok(other) => {
                    self.report(
                        Diagnostic::error(
                            "wrong-type",
                            bound.span,
                            format!("`when` must be true or false, this is {other}"),
                        )
                        .help("compare it with something"),
                    );
                    None
                }
                // The binder cannot check a list of metrics; the engine does.
                Err(_) => Some(Condition::Late(e.clone())),
            };
        }
        match bound.value() {
            Some(Value::Bool(b)) => Some(Condition::Known(b)),
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
        for (view, raw) in self.homes(draft) {
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
            let items: &[Bound] = match &bound.content {
                BoundContent::List(items) => items,
                _ => std::slice::from_ref(&bound),
            };
            for item in items {
                good &= self.need(draft, &view, item).is_some();
            }
        }
        good
    }

    fn need(&mut self, draft: usize, view: &View<'_>, item: &Bound) -> Option<()> {
        let id = Reader { diagnostics: &mut self.diagnostics }.string(item, "an item of `needs`")?;
        let group = match view.group(&id) {
            Ok(group) => group,
            Err(trouble) => {
                self.trouble(trouble, item.span);
                return None;
            }
        };
        for from in self.expanded.drafts_of(view.members(group)) {
            self.links.push(Link { from, to: draft, edge: Edge::Order, ports: None, span: item.span });
        }
        Some(())
    }
}

enum Condition {
    Known(bool),
    Late(Expression),
}

fn text(node: &Node) -> String {
    node.scalar().map(|s| crate::tree::shorten(&s.text)).unwrap_or_default()
}

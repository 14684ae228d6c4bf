//! The rule by which a file is laid over its parent; `docs/workflows.md` states it for users.
//!
//! It is the rule by which options of `rl` are laid over an `algorithm`, plus two cases that only files have: `null`
//! removes the parent's key, and another body (`uses`, or `run` in its place) drops what the parent says of a stage.
//! Every node keeps the span of the file that it was written in.

use crate::tree::{Content, Entry, Node, core_value};

/// The workflow `over` laid on its parent `base`.
pub fn workflow(base: Node, over: Node) -> Node {
    nodes(base, over, Place::File)
}

/// Where two maps meet; a stage knows more keys that make it another thing.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    File,
    Stages,
    Stage,
    Inside,
}

impl Place {
    fn below(self, key: &str) -> Self {
        match self {
            Self::File if key == "stages" => Self::Stages,
            Self::Stages => Self::Stage,
            _ => Self::Inside,
        }
    }
}

fn nodes(base: Node, over: Node, place: Place) -> Node {
    match (base, over) {
        (Node { content: Content::Map(base), .. }, Node { content: Content::Map(over), span }) => {
            Node { span, content: Content::Map(maps(base, over, place)) }
        }
        (Node { content: Content::Map(base), .. }, over) if find(&base, "kind").is_some() && is_name(&over) => {
            Node { span: over.span, content: Content::Map(maps(base, named(over), place)) }
        }
        (base, Node { content: Content::Map(over), span }) if is_name(&base) => {
            Node { span, content: Content::Map(maps(named(base), over, place)) }
        }
        (_, over) => over,
    }
}

fn maps(mut base: Vec<Entry>, over: Vec<Entry>, place: Place) -> Vec<Entry> {
    if is_another(&base, &over, place) {
        return over;
    }
    for entry in over {
        let known = base.iter().position(|e| e.key == entry.key);
        match known {
            None => base.push(entry),
            Some(at) if entry.value.is_null() => {
                base.remove(at);
            }
            Some(at) => {
                let old = base.remove(at);
                let value = nodes(old.value, entry.value, place.below(&entry.key));
                base.insert(at, Entry { value, ..entry });
            }
        }
    }
    base
}

/// Whether `over` is another part, or a stage with another body, than `base`.
fn is_another(base: &[Entry], over: &[Entry], place: Place) -> bool {
    let changed = |key: &str| {
        let scalars = |entries| find(entries, key).and_then(Node::scalar);
        scalars(base).zip(scalars(over)).is_some_and(|(old, new)| {
            let new = core_value(new);
            !new.is_null() && core_value(old) != new
        })
    };
    let replaced = |old: &str, new: &str| {
        find(base, old).is_some() && find(over, old).is_none() && find(over, new).is_some_and(|n| !n.is_null())
    };
    match place {
        Place::Stage => changed("uses") || replaced("uses", "run") || replaced("run", "uses"),
        Place::Inside => changed("kind"),
        Place::File | Place::Stages => false,
    }
}

fn find<'e>(entries: &'e [Entry], key: &str) -> Option<&'e Node> {
    entries.iter().find(|e| e.key == key).map(|e| &e.value)
}

/// Text that may stand for `{kind: text}`: no number, no bool, nothing computed.
fn is_name(node: &Node) -> bool {
    node.scalar().is_some_and(|s| core_value(s).is_string() && !s.text.contains("${{"))
}

fn named(kind: Node) -> Vec<Entry> {
    vec![Entry { key: "kind".into(), key_span: kind.span, value: kind }]
}

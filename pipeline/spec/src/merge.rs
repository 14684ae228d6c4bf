//! Merges a file over its parent. `docs/workflows.md` documents the rule for users.
//!
//! Options of `rl` are merged over an `algorithm` by the same rule. Files add two cases: `null` removes the parent's
//! key, and a different body (`uses`, or `run` in its place) drops the parent's entries of that stage. Every node
//! keeps the span of the file in which it was written.

use crate::tree::{YamlContent, YamlEntry, YamlNode, core_value};

/// Merges the workflow `child` over its parent `base`.
pub fn workflow(base: YamlNode, child: YamlNode) -> YamlNode {
    nodes(base, child, MergeLevel::File)
}

/// Level at which two maps are merged. In a stage, more keys change its identity.
#[derive(Clone, Copy, PartialEq)]
enum MergeLevel {
    File,
    Stages,
    Stage,
    Inside,
}

impl MergeLevel {
    fn below(self, key: &str) -> Self {
        match self {
            Self::File if key == "stages" => Self::Stages,
            Self::Stages => Self::Stage,
            _ => Self::Inside,
        }
    }
}

fn nodes(base: YamlNode, child: YamlNode, place: MergeLevel) -> YamlNode {
    match (base, child) {
        (YamlNode { content: YamlContent::Map(base), .. }, YamlNode { content: YamlContent::Map(child), span }) => {
            YamlNode { span, content: YamlContent::Map(maps(base, child, place)) }
        }
        (YamlNode { content: YamlContent::Map(base), .. }, child)
            if find(&base, "kind").is_some() && is_name(&child) =>
        {
            YamlNode { span: child.span, content: YamlContent::Map(maps(base, named(child), place)) }
        }
        (base, YamlNode { content: YamlContent::Map(child), span }) if is_name(&base) => {
            YamlNode { span, content: YamlContent::Map(maps(named(base), child, place)) }
        }
        (_, child) => child,
    }
}

fn maps(mut base: Vec<YamlEntry>, child: Vec<YamlEntry>, place: MergeLevel) -> Vec<YamlEntry> {
    if is_another(&base, &child, place) {
        return child;
    }
    for entry in child {
        let known = base.iter().position(|e| e.key == entry.key);
        match known {
            None => base.push(entry),
            Some(at) if entry.value.is_null() => {
                base.remove(at);
            }
            Some(at) => {
                let old = base.remove(at);
                let value = nodes(old.value, entry.value, place.below(&entry.key));
                base.insert(at, YamlEntry { value, ..entry });
            }
        }
    }
    base
}

/// Whether `child` is a different part, or a stage with a different body, than `base`.
fn is_another(base: &[YamlEntry], child: &[YamlEntry], place: MergeLevel) -> bool {
    let changed = |key: &str| {
        let scalars = |entries| find(entries, key).and_then(YamlNode::scalar);
        scalars(base).zip(scalars(child)).is_some_and(|(old, new)| {
            let new = core_value(new);
            !new.is_null() && core_value(old) != new
        })
    };
    let replaced = |old: &str, new: &str| {
        find(base, old).is_some() && find(child, old).is_none() && find(child, new).is_some_and(|n| !n.is_null())
    };
    match place {
        MergeLevel::Stage => changed("uses") || replaced("uses", "run") || replaced("run", "uses"),
        MergeLevel::Inside => changed("kind"),
        MergeLevel::File | MergeLevel::Stages => false,
    }
}

fn find<'e>(entries: &'e [YamlEntry], key: &str) -> Option<&'e YamlNode> {
    entries.iter().find(|e| e.key == key).map(|e| &e.value)
}

/// Whether a text may be short for `{kind: text}`: no number, no bool, no expression.
fn is_name(node: &YamlNode) -> bool {
    node.scalar().is_some_and(|s| core_value(s).is_string() && !s.text.contains("${{"))
}

fn named(kind: YamlNode) -> Vec<YamlEntry> {
    vec![YamlEntry { key: "kind".into(), key_span: kind.span, value: kind }]
}

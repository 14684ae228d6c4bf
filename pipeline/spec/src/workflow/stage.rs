//! Reads one stage of a file: its body, and its envelope merged over the file's `defaults`.

use super::keys::{DEFAULT_KEYS, EMBED_KEYS, ONLY_RUN, STAGE_KEYS, map_of};
use super::run_ports::RunPorts;
use crate::diagnostic::{Diagnostic, Span};
use crate::names::{check_id, unknown_keys};
use crate::tree::{YamlContent, YamlEntry, YamlNode};
use crate::vocabulary::KeyContext;
use std::cell::OnceCell;

/// One stage of a file, before it is repeated or bound.
#[derive(Debug)]
pub struct RawStage {
    /// Key under `stages`.
    pub id: String,
    /// Position of that key.
    pub id_span: Span,
    /// Whether it names a kind, embeds a file or runs a command.
    pub body: StageBody,
    /// Envelope, merged over the file's `defaults`.
    entries: Vec<YamlEntry>,
    /// Ports of a command; read when the stage is expanded.
    pub(crate) run_ports: OnceCell<RunPorts>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StageBody {
    /// `uses` with the name of a stage kind.
    Kind {
        /// Name as written.
        name: String,
        /// Position of the name.
        span: Span,
    },
    /// `uses` with the path of a workflow file.
    Embed {
        /// Path as written, relative to the folder of its file.
        path: String,
        /// Position of the path.
        span: Span,
    },
    /// A command under `run`.
    Run,
}

impl RawStage {
    /// Returns the value of one of [`STAGE_KEYS`], from the stage or the file's `defaults`.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|e| &e.value)
    }
    /// Returns the value with its key and position.
    pub fn entry(&self, key: &str) -> Option<&YamlEntry> {
        self.entries.iter().find(|e| e.key == key)
    }
    /// Whether a text occurs anywhere in the stage.
    pub fn mentions(&self, text: &str) -> bool {
        self.entries.iter().any(|entry| mentions(&entry.value, text))
    }
}

fn mentions(node: &YamlNode, text: &str) -> bool {
    match &node.content {
        YamlContent::Scalar(scalar) => scalar.text.contains(text),
        YamlContent::List(items) => items.iter().any(|item| mentions(item, text)),
        YamlContent::Map(entries) => entries.iter().any(|entry| mentions(&entry.value, text)),
    }
}

/// Whether a `uses` names a file, not a kind.
pub fn is_file(uses: &str) -> bool {
    uses.starts_with(['.', '/']) || uses.ends_with(".yaml") || uses.ends_with(".yml")
}

/// Reads all stages, merged over the file's `defaults`; also returns the ids of unreadable ones.
pub(super) fn read_stages(
    entry: Option<YamlEntry>,
    top: Span,
    defaults: &[YamlEntry],
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<RawStage>, Vec<String>) {
    let Some(entry) = entry else {
        diagnostics.push(Diagnostic::error("missing-key", top, "the file has no `stages`"));
        return Default::default();
    };
    if map_of(Some(&entry), diagnostics).is_empty() && entry.value.map().is_some() {
        diagnostics.push(Diagnostic::error("missing-key", entry.key_span, "`stages` is empty"));
    }
    let YamlContent::Map(entries) = entry.value.content else { return Default::default() };
    let (mut stages, mut unreadable) = (Vec::with_capacity(entries.len()), Vec::new());
    for entry in entries {
        match read_stage(entry, defaults, diagnostics) {
            Ok(stage) => stages.push(stage),
            Err(id) => unreadable.push(id),
        }
    }
    (stages, unreadable)
}

/// Reads one stage, or returns its id if it cannot be read.
fn read_stage(entry: YamlEntry, defaults: &[YamlEntry], diagnostics: &mut Vec<Diagnostic>) -> Result<RawStage, String> {
    check_id(&entry.key, entry.key_span, "stage", diagnostics);
    let YamlContent::Map(own) = &entry.value.content else {
        let d = Diagnostic::error(
            "wrong-type",
            entry.value.span,
            format!("stage `{}` must be a map, found {}", entry.key, entry.value.describe()),
        );
        diagnostics.push(d.help("give it at least `uses:` or `run:`"));
        return Err(entry.key);
    };
    unknown_keys(own, &STAGE_KEYS, &format!("stage `{}`", entry.key), KeyContext::Stage, diagnostics);
    let Some(body) = read_body(&entry, own, diagnostics) else { return Err(entry.key) };
    let misplaced = |key: &str| match &body {
        StageBody::Kind { .. } => ONLY_RUN.contains(&key),
        StageBody::Embed { .. } => STAGE_KEYS.contains(&key) && !EMBED_KEYS.contains(&key),
        StageBody::Run => false,
    };
    for e in own.iter().filter(|e| misplaced(&e.key)) {
        let (subject, help) = match body {
            StageBody::Embed { .. } => {
                let valid = EMBED_KEYS.join(", ");
                ("an embedded workflow", format!("set it on the stages of that file; valid here: {valid}"))
            }
            _ => ("a stage with `uses`", "it belongs to stages with `run`".to_string()),
        };
        diagnostics.push(
            Diagnostic::error("misplaced-key", e.key_span, format!("`{}` cannot be set on {subject}", e.key))
                .help(help),
        );
    }
    let YamlContent::Map(own) = entry.value.content else { return Err(entry.key) };
    let mut entries = match body {
        StageBody::Embed { .. } => own,
        _ => merge_entries(defaults, own),
    };
    // Ignored keys are not checked, neither the stage's own nor those from `defaults`.
    entries.retain(|e| !misplaced(&e.key));
    Ok(RawStage { id: entry.key, id_span: entry.key_span, body, entries, run_ports: OnceCell::new() })
}

fn read_body(stage: &YamlEntry, own: &[YamlEntry], diagnostics: &mut Vec<Diagnostic>) -> Option<StageBody> {
    let find = |key: &str| own.iter().find(|e| e.key == key);
    match (find("uses"), find("run")) {
        (Some(uses), Some(run)) => {
            let d = Diagnostic::error(
                "uses-and-run",
                run.key_span,
                format!("stage `{}` has both `uses` and `run`", stage.key),
            );
            diagnostics.push(d.help("keep one of them").related(uses.key_span, "`uses` is set here"));
            None
        }
        (None, None) => {
            let d = Diagnostic::error(
                "missing-key",
                stage.key_span,
                format!("stage `{}` has neither `uses` nor `run`", stage.key),
            );
            diagnostics.push(d.help("add `uses: sft`, or `run: [python, train.py]`"));
            None
        }
        (None, Some(_)) => Some(StageBody::Run),
        (Some(uses), None) => {
            let text = uses.value.scalar().map(|s| s.text.as_str()).filter(|t| !t.is_empty() && !t.contains("${{"));
            let Some(text) = text else {
                let d = Diagnostic::error(
                    "wrong-type",
                    uses.value.span,
                    format!("`uses` must name a stage kind or a file, found {}", uses.value.describe()),
                );
                diagnostics.push(d.help("write a kind or a file, such as `uses: sft` or `uses: ./eval.yaml`"));
                return None;
            };
            let span = uses.value.span;
            Some(if is_file(text) {
                StageBody::Embed { path: text.to_string(), span }
            } else {
                StageBody::Kind { name: text.to_string(), span }
            })
        }
    }
}

/// Reports defaults that apply to no stage, because only commands use them.
pub(super) fn report_unused_defaults(defaults: &[YamlEntry], stages: &[RawStage], diagnostics: &mut Vec<Diagnostic>) {
    if stages.iter().any(|s| s.body == StageBody::Run) {
        return;
    }
    let idle = |key: &str| ONLY_RUN.contains(&key) && DEFAULT_KEYS.contains(&key);
    for e in defaults.iter().filter(|e| idle(&e.key)) {
        let d = Diagnostic::warning(
            "misplaced-key",
            e.key_span,
            format!("`defaults` sets `{}`, but no stage has `run`", e.key),
        );
        diagnostics.push(d.help("only commands use it: leave it out"));
    }
}

/// Merges `own` over `base`; maps merge key by key (retry, resources, env).
fn merge_entries(base: &[YamlEntry], own: Vec<YamlEntry>) -> Vec<YamlEntry> {
    let mut merged = own;
    for default in base {
        match merged.iter_mut().find(|e| e.key == default.key) {
            None => merged.push(default.clone()),
            Some(YamlEntry { value: YamlNode { content: YamlContent::Map(entries), .. }, .. }) => {
                if let YamlContent::Map(under) = &default.value.content {
                    let missing: Vec<YamlEntry> =
                        under.iter().filter(|u| !entries.iter().any(|e| e.key == u.key)).cloned().collect();
                    entries.extend(missing);
                }
            }
            Some(_) => {}
        }
    }
    merged
}

//! Reads the ports of a `run` stage, which only the file declares.

use crate::diagnostic::{Diagnostic, Sources, Span};
use crate::names::check_id;
use crate::read::{Binder, BoundContent, BoundNode, NoReferences, ValueReader};
use crate::tree::YamlNode;
use std::collections::BTreeMap;
use trainyard_core::ArtifactKind;
use trainyard_core::attempt::AttemptOutput;

/// Ports of a `run` stage.
#[derive(Debug, Clone, Default)]
pub struct RunPorts {
    /// Keys under `with` and their positions, in file order.
    pub inputs: Vec<(String, Span)>,
    /// Entries under `outputs`, by name.
    pub outputs: BTreeMap<String, AttemptOutput>,
}

/// Reads the ports under `with` and `outputs` of a stage; the values under `with` are bound later.
pub fn ports(
    with: Option<&YamlNode>,
    outputs: Option<&YamlNode>,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> RunPorts {
    let mut ports = RunPorts::default();
    for entry in with.and_then(|n| n.map()).unwrap_or_default() {
        check_id(&entry.key, entry.key_span, "input", diagnostics);
        ports.inputs.push((entry.key.clone(), entry.key_span));
    }
    let Some(outputs) = outputs else { return ports };
    let names = NoReferences("the outputs of a stage are fixed by the file");
    let Some(bound) = (Binder { sources, names: &names, text: false, diagnostics }).bind(outputs) else { return ports };
    let mut reader = ValueReader { diagnostics };
    let BoundContent::Map(entries) = &bound.content else {
        reader.wrong(&bound, "`outputs`", "a map from names to kinds, as in `{clean: {kind: table}}`");
        return ports;
    };
    for entry in entries {
        check_id(&entry.key, entry.key_span, "output", reader.diagnostics);
        if let Some(output) = output(&entry.value, &mut reader) {
            ports.outputs.insert(entry.key.clone(), output);
        }
    }
    ports
}

/// Reads `{kind: table, optional: true}`, or `table`.
fn output(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<AttemptOutput> {
    let (kind, optional) = match &bound.content {
        BoundContent::Map(_) => {
            let fields = reader.map(bound, "an output", &["kind", "optional"])?;
            let optional = fields.get("optional").and_then(|b| reader.bool(b, "`optional`")).unwrap_or(false);
            let Some(kind) = fields.get("kind") else {
                reader.report(
                    Diagnostic::error("missing-key", bound.span, "an output has no `kind`")
                        .help("as in `{kind: table}`"),
                );
                return None;
            };
            (kind, optional)
        }
        _ => (bound, false),
    };
    let names = ArtifactKind::ALL.map(ArtifactKind::name);
    let name = reader.word(kind, "`kind`", &names)?;
    let kind = ArtifactKind::ALL.into_iter().find(|k| k.name() == name)?;
    Some(AttemptOutput { kind, optional })
}

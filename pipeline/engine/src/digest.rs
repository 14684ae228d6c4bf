//! Computes the stage digest, the identity of a stage's computation.
//!
//! The digest is the SHA-256 of the RFC 8785 form of `{format, kind, version, config, inputs, env}`, with `salt` if the
//! file sets one, `outputs` if the file declares them rather than the kind (`run` stages), and `beside`, the digests of
//! the companions, if any. The config is complete, with `source` values replaced by content digests. Inputs are content
//! digests by port, without empty ports. A rerun of an upstream stage that produces the same bytes therefore does not
//! change the digest. Stage id, checks, resources, retry, timeout, secrets and pools are not part of the digest.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::attempt::{AttemptInput, AttemptOutput};
use trainyard_core::{Digest, Result};
use trainyard_spec::plan::SourceRef;

/// Version of this definition; part of the digest.
pub const STAGE_DIGEST_FORMAT: u32 = 1;

/// Inputs of a stage's digest.
pub struct StageIdentity<'a> {
    pub kind: &'a str,
    /// Version of the kind.
    pub kind_version: u32,
    /// Complete config, with sources as locations.
    pub config: &'a Value,
    /// JSON pointer in the config → source there.
    pub sources: &'a BTreeMap<String, SourceRef>,
    /// Artifacts of each input port, in order.
    pub inputs: &'a BTreeMap<String, Vec<AttemptInput>>,
    /// Environment of a `run` stage.
    pub env: &'a BTreeMap<String, String>,
    /// Output ports, if the file declares them rather than the kind.
    pub outputs: Option<&'a BTreeMap<String, AttemptOutput>>,
    /// `cache: {salt: …}`, if given.
    pub salt: Option<&'a str>,
    /// Digests of the companions, sorted.
    pub beside: &'a [Digest],
}

#[derive(Serialize)]
struct DigestForm<'a> {
    format: u32,
    kind: &'a str,
    version: u32,
    config: &'a Value,
    inputs: BTreeMap<&'a str, Vec<&'a Digest>>,
    env: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<&'a BTreeMap<String, AttemptOutput>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    salt: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Digest]>::is_empty")]
    beside: &'a [Digest],
}

/// Computes the stage digest. Errors: bug, if the config contains a number without canonical form.
pub fn stage_digest(identity: &StageIdentity<'_>) -> Result<Digest> {
    let config = content_config(identity.config, identity.sources);
    let inputs = identity.inputs.iter().filter(|(_, list)| !list.is_empty());
    let digests = inputs.map(|(port, list)| (port.as_str(), list.iter().map(|i| &i.output.digest).collect()));
    Digest::of_json(&DigestForm {
        format: STAGE_DIGEST_FORMAT,
        kind: identity.kind,
        version: identity.kind_version,
        config: &config,
        inputs: digests.collect(),
        env: identity.env,
        outputs: identity.outputs,
        salt: identity.salt,
        beside: identity.beside,
    })
}

/// Returns the config with every source replaced by its content digest.
fn content_config(config: &Value, sources: &BTreeMap<String, SourceRef>) -> Value {
    let mut config = config.clone();
    for (pointer, source) in sources {
        if let Some(place) = config.pointer_mut(pointer) {
            *place = Value::String(source.digest.as_str().to_string());
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::{ArtifactKind, FileEntry, Output};

    fn input(text: &str) -> AttemptInput {
        let file = FileEntry { path: "f".into(), digest: Digest::of(text.as_bytes()), size: 1 };
        let output = Output::new(ArtifactKind::Files, vec![file], None, BTreeMap::new()).unwrap();
        AttemptInput { stage_digest: Digest::of(b"producer"), generation: 3, output_name: "files".into(), output }
    }
    fn digest(config: &Value, source: &str, inputs: &BTreeMap<String, Vec<AttemptInput>>) -> Digest {
        let sources = BTreeMap::from([(
            "/path".to_string(),
            SourceRef { location: "/x".into(), digest: Digest::of(source.as_bytes()) },
        )]);
        let env = BTreeMap::new();
        stage_digest(&StageIdentity {
            kind: "k",
            kind_version: 1,
            config,
            sources: &sources,
            inputs,
            env: &env,
            outputs: None,
            salt: None,
            beside: &[],
        })
        .unwrap()
    }

    #[test]
    fn stage_digest_is_that_of_the_documented_json() {
        let inputs = BTreeMap::from([("in".to_string(), vec![input("a")])]);
        let content = &inputs["in"][0].output.digest;
        let expected = format!(
            concat!(
                r#"{{"config":{{"path":"{}","steps":2}},"env":{{}},"format":1,"inputs":{{"in":["{}"]}},"#,
                r#""kind":"k","version":1}}"#
            ),
            Digest::of(b"bytes"),
            content
        );
        assert_eq!(digest(&json!({"steps": 2.0, "path": "/x"}), "bytes", &inputs), Digest::of(expected.as_bytes()));
    }

    #[test]
    fn stage_digest_depends_on_content_not_on_producer() {
        let none = BTreeMap::new();
        assert_eq!(digest(&json!({"path": "/x"}), "s", &none), digest(&json!({"path": "/elsewhere"}), "s", &none));
        assert_ne!(digest(&json!({"path": "/x"}), "s", &none), digest(&json!({"path": "/x"}), "t", &none));
        let empty = BTreeMap::from([("in".to_string(), Vec::new())]);
        assert_eq!(digest(&json!({}), "s", &empty), digest(&json!({}), "s", &none));
        let other =
            AttemptInput { stage_digest: Digest::of(b"another"), generation: 0, output_name: "o".into(), ..input("a") };
        let (a, b) =
            (BTreeMap::from([("in".to_string(), vec![input("a")])]), BTreeMap::from([("in".to_string(), vec![other])]));
        assert_eq!(digest(&json!({}), "s", &a), digest(&json!({}), "s", &b));
    }
}

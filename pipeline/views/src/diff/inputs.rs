//! Compares the artifacts that two stages read.

use crate::row_lineage::artifact_name;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use trainyard_core::{ArtifactRef, Manifest, Result};
use trainyard_store::Store;

/// Input whose content differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputChange {
    /// Name of the input.
    pub input: String,
    /// Artifacts of A that differ from those of B.
    pub a: Vec<InputArtifact>,
    /// Artifacts of B that differ from those of A.
    pub b: Vec<InputArtifact>,
}

/// Artifact that a stage read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputArtifact {
    /// Artifact, as `RUN/STAGE/OUTPUT`, or `DIGEST/OUTPUT` if its manifest is no longer in the store.
    pub artifact: String,
    /// Digest of the content.
    pub digest: String,
}

/// Returns the inputs that differ, with the names of their artifacts. Errors: those of the store.
pub async fn input_changes(store: &Store, a: &Manifest, b: &Manifest) -> Result<Vec<InputChange>> {
    let mut changes = Vec::new();
    for (input, a, b) in differing_inputs(a, b) {
        changes.push(InputChange { input, a: named(store, &a).await?, b: named(store, &b).await? });
    }
    Ok(changes)
}

/// Returns the inputs that differ in content. Of lists of one length only the items that differ are returned.
pub fn differing_inputs<'a>(
    a: &'a Manifest,
    b: &'a Manifest,
) -> Vec<(String, Vec<&'a ArtifactRef>, Vec<&'a ArtifactRef>)> {
    let names: BTreeSet<&String> = a.inputs.keys().chain(b.inputs.keys()).collect();
    let of = |manifest: &'a Manifest, name: &String| manifest.inputs.get(name).map_or(&[][..], Vec::as_slice);
    let differing = names.into_iter().filter_map(|name| {
        let (a, b) = (of(a, name), of(b, name));
        let (a, b): (Vec<_>, Vec<_>) = match a.len() == b.len() {
            true => a.iter().zip(b).filter(|(a, b)| a.digest != b.digest).unzip(),
            false => (a.iter().collect(), b.iter().collect()),
        };
        (!a.is_empty() || !b.is_empty()).then(|| (name.clone(), a, b))
    });
    differing.collect()
}

async fn named(store: &Store, inputs: &[&ArtifactRef]) -> Result<Vec<InputArtifact>> {
    let mut artifacts = Vec::with_capacity(inputs.len());
    for input in inputs {
        let made = store.manifest_at(&input.stage_digest, input.generation).await?;
        let by_digest = || format!("{}/{}", input.stage_digest.short(), input.output);
        artifacts.push(InputArtifact {
            artifact: made.map_or_else(by_digest, |made| artifact_name(&made, &input.output)),
            digest: input.digest.to_string(),
        });
    }
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::Digest;

    fn manifest(inputs: &[(&str, &[&str])]) -> Manifest {
        let list = |contents: &[&str]| -> Vec<serde_json::Value> {
            let item = |content: &&str| {
                json!({"stage_digest": Digest::of(content.as_bytes()), "generation": 0, "output": "o", "kind": "files",
                    "digest": Digest::of(content.as_bytes())})
            };
            contents.iter().map(item).collect()
        };
        let inputs: serde_json::Map<_, _> =
            inputs.iter().map(|(name, contents)| ((*name).to_string(), list(contents).into())).collect();
        let manifest = json!({
            "format": 1, "stage_digest": Digest::of(b"s"), "generation": 0, "kind": "run", "kind_version": 1,
            "config": {}, "inputs": inputs,
            "provenance": {"workflow": "w", "run": "r", "stage": "s", "attempt": 1},
        });
        serde_json::from_value(manifest).unwrap()
    }

    #[test]
    fn inputs_differ_by_content() {
        let a = manifest(&[("data", &["x"]), ("many", &["1", "2", "3"]), ("old", &["o"]), ("same", &["s"])]);
        let b = manifest(&[("data", &["y"]), ("many", &["1", "4", "3"]), ("same", &["s"])]);
        let digests = |list: Vec<&ArtifactRef>| list.iter().map(|input| input.digest.clone()).collect::<Vec<_>>();
        let found: Vec<_> =
            differing_inputs(&a, &b).into_iter().map(|(name, a, b)| (name, digests(a), digests(b))).collect();
        let of = |text: &str| Digest::of(text.as_bytes());
        let expected = [
            ("data".to_string(), vec![of("x")], vec![of("y")]),
            ("many".to_string(), vec![of("2")], vec![of("4")]),
            ("old".to_string(), vec![of("o")], vec![]),
        ];
        assert_eq!(found, expected);
        assert!(differing_inputs(&a, &a).is_empty());
        let longer = manifest(&[("same", &["s", "t"])]);
        let short = manifest(&[("same", &["s"])]);
        let (_, a, b) = differing_inputs(&short, &longer).remove(0);
        assert_eq!((a.len(), b.len()), (1, 2));
    }

    #[tokio::test]
    async fn artifacts_without_a_manifest_are_named_by_their_digest() {
        let store = Store::open("memory://", Default::default()).await.unwrap();
        let found = input_changes(&store, &manifest(&[("data", &["x"])]), &manifest(&[])).await.unwrap();
        assert_eq!(found[0].a[0].artifact, format!("{}/o", Digest::of(b"x").short()));
        assert!(found[0].b.is_empty());
    }
}

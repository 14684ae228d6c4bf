//! Says why a stage of two runs has another digest.

use super::config::{ConfigChange, config_changes};
use super::inputs::differing_inputs;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::{ArtifactRef, Manifest, Result, StageKey};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_store::Store;

/// Stage of both runs that differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangedStage {
    /// Stage key.
    pub stage: StageKey,
    /// Reasons, in the order in which they are to be read.
    pub reasons: Vec<Reason>,
}

/// Reason why a stage differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// One run did not publish the stage.
    Unpublished {
        /// Status in A.
        a: String,
        /// Status in B.
        b: String,
    },
    /// The manifest of a run is no longer in the store.
    NoManifest {
        /// Digest of the stage.
        stage_digest: String,
    },
    /// Another kind of stage.
    Kind {
        /// Kind in A.
        a: String,
        /// Kind in B.
        b: String,
    },
    /// Other configuration.
    Config {
        /// Differing keys.
        changes: Vec<ConfigChange>,
    },
    /// Other content of an input.
    Input {
        /// Name of the input.
        input: String,
        /// Stages of the runs that made the differing artifacts.
        stages: Vec<StageKey>,
    },
    /// Another version of the kind.
    KindVersion {
        /// Version in A.
        a: u32,
        /// Version in B.
        b: u32,
    },
    /// Another publication of the stage: it was computed again.
    Generation {
        /// Generation in A.
        a: u32,
        /// Generation in B.
        b: u32,
    },
    /// A part of the digest that manifests do not have: content of a source, environment, declared outputs, salt or
    /// companions.
    NotInManifest,
}

/// Stages of a run by the digest under which they are published.
pub struct Producers(BTreeMap<String, StageKey>);

impl Producers {
    /// Collects the stages of a run.
    pub fn of(view: &RunView) -> Self {
        let digest = |stage: &StageView| Some((stage.digest.as_ref()?.to_string(), stage.key().clone()));
        Self(view.stages.iter().filter_map(digest).collect())
    }
    fn stages(&self, inputs: &[&ArtifactRef]) -> Vec<StageKey> {
        inputs.iter().filter_map(|input| self.0.get(input.stage_digest.as_str()).cloned()).collect()
    }
}

/// Returns why a stage of two runs differs; nothing if it does not, or if neither run published it. Errors: those of
/// the store.
pub async fn reasons(
    store: &Store,
    (a, producers_a): (&StageView, &Producers),
    (b, producers_b): (&StageView, &Producers),
) -> Result<Vec<Reason>> {
    let published = |stage: &StageView| stage.digest.clone().zip(stage.generation);
    let ((digest_a, generation_a), (digest_b, generation_b)) = match (published(a), published(b)) {
        (None, None) => return Ok(Vec::new()),
        (Some(of_a), Some(of_b)) if of_a == of_b => return Ok(Vec::new()),
        (Some(of_a), Some(of_b)) => (of_a, of_b),
        _ => {
            let status = |stage: &StageView| stage.status.name().to_string();
            return Ok(vec![Reason::Unpublished { a: status(a), b: status(b) }]);
        }
    };
    let in_a = store.manifest_at(&digest_a, generation_a).await?;
    let in_b = store.manifest_at(&digest_b, generation_b).await?;
    let (Some(in_a), Some(in_b)) = (&in_a, &in_b) else {
        let missing = [(&in_a, &digest_a), (&in_b, &digest_b)].into_iter().filter(|(found, _)| found.is_none());
        let reason =
            |(_, digest): (_, &trainyard_core::Digest)| Reason::NoManifest { stage_digest: digest.to_string() };
        return Ok(missing.map(reason).collect());
    };
    Ok(of_manifests((in_a, producers_a), (in_b, producers_b)))
}

/// Returns why two manifests have other digests or generations.
fn of_manifests((a, producers_a): (&Manifest, &Producers), (b, producers_b): (&Manifest, &Producers)) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if a.kind != b.kind {
        reasons.push(Reason::Kind { a: a.kind.clone(), b: b.kind.clone() });
    }
    let changes = config_changes(&a.config, &b.config);
    if !changes.is_empty() {
        reasons.push(Reason::Config { changes });
    }
    for (input, in_a, in_b) in differing_inputs(a, b) {
        let mut stages = producers_a.stages(&in_a);
        stages.extend(producers_b.stages(&in_b));
        stages.sort_unstable();
        stages.dedup();
        reasons.push(Reason::Input { input, stages });
    }
    if a.kind == b.kind && a.kind_version != b.kind_version {
        reasons.push(Reason::KindVersion { a: a.kind_version, b: b.kind_version });
    }
    if reasons.is_empty() && a.stage_digest != b.stage_digest {
        reasons.push(Reason::NotInManifest);
    }
    if a.stage_digest == b.stage_digest && a.generation != b.generation {
        reasons.push(Reason::Generation { a: a.generation, b: b.generation });
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use trainyard_core::Digest;

    fn manifest(digest: &str, change: Value) -> Manifest {
        let mut manifest = json!({
            "format": 1, "stage_digest": Digest::of(digest.as_bytes()), "generation": 0, "kind": "sft",
            "kind_version": 1, "config": {"lr": 1, "steps": 2},
            "provenance": {"workflow": "w", "run": "r", "stage": "s", "attempt": 1},
        });
        for (key, value) in change.as_object().unwrap() {
            manifest[key] = value.clone();
        }
        serde_json::from_value(manifest).unwrap()
    }
    fn input(stage: &str, content: &str) -> Value {
        json!({"stage_digest": Digest::of(stage.as_bytes()), "generation": 0, "output": "model", "kind": "model",
            "digest": Digest::of(content.as_bytes())})
    }
    fn producers(stages: &[&str]) -> Producers {
        let of = |name: &&str| (Digest::of(name.as_bytes()).to_string(), StageKey((*name).to_string()));
        Producers(stages.iter().map(of).collect())
    }
    fn compared(a: &Manifest, b: &Manifest) -> Vec<Reason> {
        let producers = producers(&["sft", "rl"]);
        of_manifests((a, &producers), (b, &producers))
    }

    #[test]
    fn config_comes_before_inputs_and_the_version() {
        let a = manifest("1", json!({"inputs": {"model": [input("sft", "x")], "data": [input("gone", "d")]}}));
        let b = manifest(
            "2",
            json!({
                "inputs": {"model": [input("rl", "y")], "data": [input("gone", "e")]}, "kind_version": 2,
                "config": {"lr": 1, "steps": 3},
            }),
        );
        let change = ConfigChange { path: "steps".into(), a: Some(json!(2)), b: Some(json!(3)) };
        let expected = [
            Reason::Config { changes: vec![change] },
            Reason::Input { input: "data".into(), stages: Vec::new() },
            Reason::Input { input: "model".into(), stages: vec![StageKey("rl".into()), StageKey("sft".into())] },
            Reason::KindVersion { a: 1, b: 2 },
        ];
        assert_eq!(compared(&a, &b), expected);
    }

    #[test]
    fn other_reasons_are_the_generation_the_kind_or_hidden() {
        let a = manifest("1", json!({}));
        let again = manifest("1", json!({"generation": 2, "reason": "rerun"}));
        assert_eq!(compared(&a, &again), [Reason::Generation { a: 0, b: 2 }]);
        assert_eq!(compared(&a, &manifest("2", json!({}))), [Reason::NotInManifest]);
        let other = manifest("2", json!({"kind": "rl", "kind_version": 7}));
        assert_eq!(compared(&a, &other), [Reason::Kind { a: "sft".into(), b: "rl".into() }]);
    }

    #[tokio::test]
    async fn stages_without_manifests_say_so() {
        let store = Store::open("memory://", Default::default()).await.unwrap();
        let none = producers(&[]);
        let stage = |digest: Option<&str>| StageView {
            digest: digest.map(|text| Digest::of(text.as_bytes())),
            generation: digest.map(|_| 0),
            ..StageView::default()
        };
        let (a, b, open) = (stage(Some("a")), stage(Some("b")), stage(None));
        let pending = Reason::Unpublished { a: "pending".into(), b: "pending".into() };
        assert_eq!(reasons(&store, (&a, &none), (&open, &none)).await.unwrap(), [pending]);
        assert!(reasons(&store, (&open, &none), (&open, &none)).await.unwrap().is_empty());
        assert!(reasons(&store, (&a, &none), (&a, &none)).await.unwrap().is_empty());
        let missing = |text: &str| Reason::NoManifest { stage_digest: Digest::of(text.as_bytes()).to_string() };
        assert_eq!(reasons(&store, (&a, &none), (&b, &none)).await.unwrap(), [missing("a"), missing("b")]);
    }
}

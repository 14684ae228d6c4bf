//! Lists the backends of this build, one line each, sorted by kind.

use super::candle::Candle;
use super::cpu::{self, Cpu};
use super::endpoint::{Endpoint, EndpointBackend};
use super::{Backend, BackendFeatures, Gpus};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::family::{PartKind, PartOptions};
use trainyard_api::{Family, Slot};
use trainyard_core::{OptionProblem, Result, Secrets};
use trainyard_tables::SamplingParams;

/// Backends that a stage may name in `backend`; each is built with the secrets of the stage.
pub type Backends = Family<dyn Backend, Secrets>;

/// Returns all backends of this build.
pub fn family() -> Backends {
    let members = vec![
        backend::<Candle>(),
        PartKind::plain(cpu::KIND, cpu::SUMMARY, cpu::DOC, |_| Ok(Box::new(Cpu) as Box<dyn Backend>)),
        PartKind::new(|options: Endpoint, secrets| Ok(Box::new(EndpointBackend::new(options, secrets)))),
    ];
    Family::new("backends", "backend", members)
}

/// Returns the part of a backend whose options type is the backend itself.
pub fn backend<P: PartOptions + Backend>() -> PartKind<dyn Backend, Secrets> {
    PartKind::new(|options: P, _| Ok(Box::new(options)))
}

/// Returns the default backend of stages.
pub fn default_options() -> Value {
    json!({ "kind": cpu::KIND })
}

/// Returns whether the options are the default, for `#[serde(skip_serializing_if)]`. A config omits the default
/// backend, so its digest is the same as before backends could be chosen.
pub fn is_default(options: &Value) -> bool {
    *options == default_options()
}

/// The backend that the options of a stage name.
pub struct BackendSlot {
    place: &'static str,
    slot: Slot<dyn Backend, Secrets>,
}

impl BackendSlot {
    /// Reads the key at `place` (`/backend`) of the options and fills in its defaults.
    pub fn read(family: &Backends, place: &'static str, options: &mut Value) -> Self {
        if let Some(map) = options.as_object_mut() {
            map.entry(place.trim_start_matches('/')).or_insert_with(default_options);
        }
        Self { place, slot: Slot::read_at(family, place, options) }
    }
    /// Reads the key at `place` (`/rollout/backend`) of the options, or returns `None` if the key is absent.
    pub fn read_optional(family: &Backends, place: &'static str, options: &mut Value) -> Option<Self> {
        options.pointer(place).filter(|value| !value.is_null())?;
        Some(Self { place, slot: Slot::read_at(family, place, options) })
    }
    /// Returns all problems of the backend's options.
    pub fn problems(&self) -> Vec<OptionProblem> {
        self.slot.problems()
    }
    /// Returns a problem for each contradiction between the backend and the number of GPUs that its stage requests.
    pub fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        let Ok(backend) = self.build_without_secrets() else { return Vec::new() };
        let (message, help) = match (backend.gpus(), gpus) {
            (Gpus::Unused, 1..) => (
                format!("the stage requests a GPU, but its backend `{}` does not use one", backend.kind()),
                super::candle::how_to_use_a_gpu(),
            ),
            (Gpus::Needed, 0) => (
                "the backend computes on a GPU, but the stage does not request one".to_string(),
                "add `resources: {gpus: 1}` to the stage".to_string(),
            ),
            (Gpus::Needed, 2..) => (
                format!("the backend computes on one GPU, but the stage requests {gpus}"),
                "request one: `resources: {gpus: 1}`".to_string(),
            ),
            (Gpus::Unused | Gpus::Uncounted | Gpus::Needed, _) => return Vec::new(),
        };
        vec![OptionProblem::new(self.place, message).help(help)]
    }
    /// Returns the backend's features, or all features if its options are invalid.
    pub fn features(&self) -> BackendFeatures {
        self.build_without_secrets().map_or(BackendFeatures::ALL, |backend| backend.features())
    }
    /// Returns a problem if the backend cannot accept new weights.
    pub fn problem_with_weights(&self) -> Option<OptionProblem> {
        let message = "the policy changes with every step, but this backend cannot load new weights";
        let help = "set `weights: {folder: /shared/weights}` to a folder that the stage and the server share \
                    (`server: vllm` or `server: sglang`)";
        (!self.features().weights).then(|| OptionProblem::new(self.place, message).help(help))
    }
    /// Returns a problem if the backend cannot train.
    pub fn problem_with_training(&self) -> Option<OptionProblem> {
        let kind = self.slot.kind();
        let message = format!("the backend `{kind}` samples and does not train");
        let help = "leave `backend` out, or use one that trains; for the rollouts of `rl` alone, set \
                    `rollout: {backend: …}`";
        (!self.features().trains).then(|| OptionProblem::new(self.place, message).help(help))
    }
    /// Returns a problem at `place` if the backend cannot sample under these options.
    pub fn problem_with_sampling(&self, place: &str, sampling: &SamplingParams) -> Option<OptionProblem> {
        let (message, help) = self.build_without_secrets().ok()?.refuses(sampling)?;
        Some(OptionProblem::new(place, message).help(help))
    }
    /// Builds the backend. Errors: invalid, naming the pointer of the option and the problem.
    pub fn build(&self, secrets: &Secrets) -> Result<Arc<dyn Backend>> {
        Ok(Arc::from(self.slot.build(secrets)?))
    }
    /// Builds the backend without secrets.
    fn build_without_secrets(&self) -> Result<Arc<dyn Backend>> {
        self.build(&Secrets::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_requests_must_match_the_backend() {
        let of = |options: Value, gpus: u32| {
            let slot = BackendSlot::read(&family(), "/backend", &mut json!({ "backend": options }));
            slot.problems_with_gpus(gpus).into_iter().map(|p| (p.message, p.help.unwrap())).next()
        };
        for kind in ["cpu", "candle"] {
            assert_eq!(of(json!(kind), 0), None);
            let (message, help) = of(json!(kind), 1).unwrap();
            assert!(message.contains(kind) && help.contains("backend: {kind: candle, device:"), "{message} {help}");
        }
        if !cfg!(feature = "cuda") {
            let slot = BackendSlot::read(
                &family(),
                "/backend",
                &mut json!({ "backend": {"kind": "candle", "device": "cuda"} }),
            );
            let problem = slot.problems().remove(0);
            assert_eq!(problem.pointer, "/backend/device");
            assert!(problem.help.unwrap().contains("cargo build --release --features cuda"));
        }
    }

    #[test]
    fn default_backend_is_not_serialized() {
        let read = |mut options: Value| {
            BackendSlot::read(&family(), "/backend", &mut options);
            options["backend"].clone()
        };
        assert!(is_default(&read(json!({}))) && is_default(&read(json!({"backend": "cpu"}))));
        let candle = read(json!({"backend": "candle"}));
        assert_eq!(candle, json!({"kind": "candle", "device": "cpu", "dtype": "f32", "recompute": true}));
        assert!(!is_default(&candle));
    }
}

//! Tests the backend `endpoint` against a served model.

use crate::{ModelServer, ModelServerOptions};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::clock::ManualClock;
use trainyard_core::{Chance, Error, Result, Secrets};
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::cpu::Cpu;
use trainyard_lm::backend::endpoint::{Endpoint, EndpointBackend};
use trainyard_lm::backend::{
    Backend, BackendFeatures, Gpus, Learner, LearnerOptions, Sampler, SamplerOptions, conformance,
};
use trainyard_model_api::{ModelApiServer, ModelApiSettings};
use trainyard_tables::SamplingParams;

/// Backend that serves every model that it samples with. Dropping it stops the servers.
#[derive(Default)]
struct ServingBackend(Mutex<Vec<ModelApiServer>>);

fn endpoint(url: &str) -> EndpointBackend {
    let options = json!({"url": url, "server": "vllm", "timeout": "20s", "attempts": 2});
    EndpointBackend::new(serde_json::from_value::<Endpoint>(options).unwrap(), &Secrets::default())
}

impl Backend for ServingBackend {
    fn kind(&self) -> &'static str {
        "endpoint"
    }
    fn features(&self) -> BackendFeatures {
        endpoint("http://127.0.0.1:1").features()
    }
    fn refuses(&self, sampling: &SamplingParams) -> Option<(String, String)> {
        endpoint("http://127.0.0.1:1").refuses(sampling)
    }
    fn gpus(&self) -> Gpus {
        Gpus::Unused
    }
    fn is_batch_invariant(&self) -> bool {
        false
    }
    fn learner(&self, _model: &ModelFolder, _options: &LearnerOptions) -> Result<Box<dyn Learner>> {
        Err(Error::bug("the endpoint does not train"))
    }
    fn sampler(&self, model: &ModelFolder, options: &SamplerOptions) -> Result<Box<dyn Sampler>> {
        // The served model includes the adapter, so no stage transfers it.
        let served =
            ModelServerOptions { name: "m".into(), max_batch: 8, max_waiting: 64, calls: None, chance: Chance::new(2) };
        let host = ModelServer::start(&model.chat, &model.generation, Cpu.sampler(model, options)?, served)?;
        let settings = ModelApiSettings::new(Arc::new(ManualClock::at_millis(0)), Chance::new(1));
        let running = ModelApiServer::start("127.0.0.1:0".parse().unwrap(), Arc::new(host), settings)?;
        let sampler = endpoint(&running.url()).sampler(&ModelFolder { adapter: None, ..model.clone() }, options);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(running);
        sampler
    }
}

#[test]
fn a_served_model_passes_the_suite_of_backends() {
    conformance::suite(&ServingBackend::default());
}

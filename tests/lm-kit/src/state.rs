//! Holds the state that the threads of a server share.

use crate::engine::MockModelEngine;
use crate::fault::MockServerFault;
use serde_json::Value;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_lm::backend::endpoint::InferenceServerKind;
use trainyard_lm::generate::DrawKey;

/// Name of the served model.
pub const MODEL: &str = "served";

/// Options of a server.
#[derive(Debug, Clone, Default)]
pub struct MockServerOptions {
    /// API key that requests must have.
    pub key: Option<String>,
    /// vLLM's `--logprobs-mode processed_logprobs`; SGLang without `SGLANG_RETURN_ORIGINAL_LOGPROB`.
    pub processed: bool,
    /// Length of the context; that of the model, if it is shorter.
    pub context: Option<usize>,
    /// Draws of the expected seeds, where a test knows them: the server then draws as the reference does.
    pub keys: Vec<DrawKey>,
}

/// A received request: its path and its body.
pub type MockServerRequest = (String, Value);

/// A response: status and body.
pub type MockServerResponse = (u16, Value);

/// State shared by the threads of a server.
pub struct MockServerState {
    pub kind: InferenceServerKind,
    pub options: MockServerOptions,
    pub engine: Mutex<MockModelEngine>,
    pub faults: Mutex<Vec<(String, MockServerFault)>>,
    pub requests: Mutex<Vec<MockServerRequest>>,
    pub stopped: AtomicBool,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

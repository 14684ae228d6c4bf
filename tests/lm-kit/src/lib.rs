//! Provides a server of vLLM's, SGLang's or llama.cpp's dialect that computes with the reference backend: a substitute
//! for a real server in tests, with the faults of a real one on demand.
//!
//! The fields are those that the servers document (vLLM: `entrypoints/openai/completion/protocol.py`, the pages
//! "OpenAI-compatible server" and "LoRA adapters"; SGLang: "Native APIs", "Sampling parameters", "SGLang for RL";
//! llama.cpp: `tools/server/README.md`). The server handles one request per connection, which is sufficient for one
//! client.

mod dialects;
mod engine;
mod fault;
mod state;
mod wire;

pub use fault::MockServerFault;
pub use state::{MODEL, MockServerOptions, MockServerRequest};

use engine::MockModelEngine;
use state::{MockServerState, lock};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use trainyard_core::Result;
use trainyard_core::error::Error;
use trainyard_lm::backend::endpoint::InferenceServerKind;
use trainyard_lm::folder::ModelFolder;

/// A running server, which stops when dropped.
pub struct MockModelServer {
    address: SocketAddr,
    state: Arc<MockServerState>,
    listener: Option<JoinHandle<()>>,
}

impl MockModelServer {
    /// Serves a model on a port of this machine.
    pub fn start(kind: InferenceServerKind, model: &ModelFolder, options: MockServerOptions) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| Error::retryable(format!("no port: {e}")))?;
        let address = listener.local_addr().map_err(|e| Error::retryable(format!("no port: {e}")))?;
        let shared = Arc::new(MockServerState {
            kind,
            options,
            engine: Mutex::new(MockModelEngine::new(model)?),
            faults: Mutex::default(),
            requests: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let threads = shared.clone();
        let listener = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if threads.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let shared = threads.clone();
                std::thread::spawn(move || wire::serve(stream, &shared));
            }
        });
        Ok(Self { address, state: shared, listener: Some(listener) })
    }
    /// Returns the URL of the server, as a workflow file gives it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
    /// Applies a fault to the next request whose path begins with `path`; several are applied in order.
    pub fn inject_fault(&self, path: &str, fault: MockServerFault) {
        lock(&self.state.faults).push((path.to_string(), fault));
    }
    /// Returns all requests so far, with path and body.
    pub fn seen(&self) -> Vec<MockServerRequest> {
        lock(&self.state.requests).clone()
    }
}

impl Drop for MockModelServer {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // The connection wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

//! Waits for requests to the store, on threads outside of the runtime.

use tokio::runtime::Handle;
use tokio::sync::watch;
use trainyard_core::{Error, Result};

/// Waits of one attempt for its store.
#[derive(Clone)]
pub struct StoreWait {
    /// Runtime of the requests.
    pub handle: Handle,
    /// Becomes true when the attempt must no longer wait; `None` if its process is killed instead.
    pub killed: Option<watch::Receiver<bool>>,
}

impl StoreWait {
    /// Waits for a request. Errors: cancelled, if the attempt must no longer wait, and those of the request.
    pub fn wait_for<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(mut killed) = self.killed.clone() else { return self.handle.block_on(request) };
        self.handle.block_on(async {
            tokio::select! {
                biased;
                response = request => response,
                Ok(_) = killed.wait_for(|killed| *killed) => Err(Error::cancelled("the attempt was stopped")),
            }
        })
    }
}

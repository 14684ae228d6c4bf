//! Runs asynchronous requests on one thread for synchronous callers.

use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use trainyard_core::{Error, Result};

/// Asynchronous runtime with one thread. Its tasks are cancelled when it is dropped.
pub struct Background {
    /// `None` only during drop.
    runtime: Option<Runtime>,
}

impl Background {
    /// Starts the thread. Errors: retryable, if the runtime cannot be started.
    pub fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("http").enable_all().build();
        let runtime =
            runtime.map_err(|e| Error::retryable(format!("cannot start the runtime for HTTP requests: {e}")))?;
        Ok(Self { runtime: Some(runtime) })
    }
    /// Spawns a task that runs independently of its caller, and returns a handle that cancels the task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        self.runtime.as_ref().map(|runtime| runtime.spawn(task).abort_handle())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

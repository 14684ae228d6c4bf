//! Binds the server, serves requests, and can run the server on a separate thread.

use super::guard::policy_of;
use super::handle::handle;
use super::settings::ModelApiSettings;
use super::state::ModelApiState;
use crate::error::ModelApiError;
use crate::handler::ModelHandler;
use crate::request::ApiKind;
use axum::Router;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use trainyard_core::{Error, Result};

/// Listens on an address. Errors: invalid (a network address without a key, or an address that cannot be bound).
pub async fn bind(address: SocketAddr, settings: &ModelApiSettings) -> Result<TcpListener> {
    trainyard_http_server::bind(address, &policy_of(settings)).await
}

/// Serves requests with `handler` until `stop` is done, then completes the current ones.
pub async fn serve(
    listener: TcpListener,
    handler: Arc<dyn ModelHandler>,
    settings: ModelApiSettings,
    stop: impl Future<Output = ()>,
) {
    let limits = settings.limits;
    let busy = ModelApiError::new(503, "too many connections are open; try again in a second").body(ApiKind::Chat);
    let router = Router::new().fallback(handle).with_state(Arc::new(ModelApiState::new(handler, settings)));
    trainyard_http_server::serve(listener, router, limits, busy.to_string(), stop).await;
}

/// A server on a separate thread, for synchronous programs. Dropping it stops the server and waits for its thread;
/// requests in flight are cut off.
pub struct ModelApiServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ModelApiServer {
    /// Starts serving on an address; port 0 selects a free port. Errors: as [`bind`]; retryable, if the thread cannot
    /// be started.
    pub fn start(address: SocketAddr, handler: Arc<dyn ModelHandler>, settings: ModelApiSettings) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("serving")
            .enable_all()
            .build()
            .map_err(|e| Error::retryable(format!("cannot start the runtime of the server: {e}")))?;
        let listener = runtime.block_on(bind(address, &settings))?;
        let address = listener
            .local_addr()
            .map_err(|e| Error::retryable(format!("cannot read the address of the server: {e}")))?;
        let (stop, mut stopped) = watch::channel(false);
        let work = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = serve(listener, handler, settings, std::future::pending()) => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new()
            .name("serving".into())
            .spawn(work)
            .map_err(|e| Error::retryable(format!("cannot start the thread of the server: {e}")))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
    /// Returns the URL without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for ModelApiServer {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

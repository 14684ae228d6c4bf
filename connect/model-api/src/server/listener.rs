//! Listening and shutdown.

use super::handle::handle;
use super::settings::ModelApiSettings;
use super::state::ModelApiState;
use crate::handler::ModelHandler;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::serve::ListenerExt as _;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use trainyard_core::{Error, Result};

/// Listens on an address. Errors: invalid (a network address without a key, or one that cannot be bound).
pub async fn bind(address: SocketAddr, settings: &ModelApiSettings) -> Result<TcpListener> {
    if settings.key.is_none() && !address.ip().is_loopback() {
        return Err(Error::invalid(format!("{address} can be reached by others, and nobody would need a key"))
            .help("give a key, or bind to 127.0.0.1"));
    }
    TcpListener::bind(address)
        .await
        .map_err(|e| Error::invalid(format!("cannot listen on {address}: {e}")).help("give another address"))
}

/// Serves requests until `stop` is done, then ends those in flight. Errors: retryable (the server stopped by itself).
pub async fn serve(
    listener: TcpListener,
    desk: Arc<dyn ModelHandler>,
    settings: ModelApiSettings,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let app = Arc::new(ModelApiState::new(desk, settings, loopback));
    let router = Router::new().fallback(handle).layer(DefaultBodyLimit::disable()).with_state(app);
    // Events are small, and waiting for more of them would delay tokens.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await
        .map_err(|e| Error::retryable(format!("the HTTP server stopped: {e}")))
}

/// A server on a separate thread, for synchronous programs. It ends when dropped: requests in flight are cut off.
pub struct ModelApiServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ModelApiServer {
    /// Serves on an address; port 0 = any free one. Errors: as [`bind`]; retryable (no thread).
    pub fn start(address: SocketAddr, desk: Arc<dyn ModelHandler>, settings: ModelApiSettings) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("serving")
            .enable_all()
            .build()
            .map_err(|e| Error::retryable(format!("no asynchronous runtime: {e}")))?;
        let listener = runtime.block_on(bind(address, &settings))?;
        let address = listener.local_addr().map_err(|e| Error::retryable(format!("the server has no address: {e}")))?;
        let (stop, mut stopped) = watch::channel(false);
        let work = move || {
            runtime.block_on(async move {
                let mut told = stopped.clone();
                let wait = async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                };
                tokio::select! {
                    ended = serve(listener, desk, settings, wait) => {
                        if let Err(error) = ended {
                            tracing::error!("{error}");
                        }
                    }
                    _ = told.wait_for(|stop| *stop) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new()
            .name("serving".into())
            .spawn(work)
            .map_err(|e| Error::retryable(format!("no thread for the server: {e}")))?;
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

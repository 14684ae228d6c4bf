//! Accepts connections until shutdown.

use crate::connection::{handle_connection, refuse_connection};
use crate::limits::ServerLimits;
use axum::Router;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Number of connections that are refused at a time; further ones are closed without a response.
const MAX_REFUSED: usize = 64;
/// Pause after a connection could not be accepted, as when the process has too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Serves requests until `stop` is done, then completes the current ones and returns. If the future is dropped, the
/// open connections are cut off. A connection above the limit is refused with the JSON body `busy`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    busy: String,
    stop: impl Future<Output = ()>,
) {
    let busy: Arc<str> = busy.into();
    let (stopping, stopped) = watch::channel(false);
    let (mut open, mut refused) = (JoinSet::new(), JoinSet::new());
    let mut stop = pin!(stop);
    loop {
        let stream = tokio::select! {
            () = &mut stop => break,
            stream = accept(&listener) => stream,
        };
        while open.try_join_next().is_some() {}
        while refused.try_join_next().is_some() {}
        if open.len() < limits.connections {
            open.spawn(handle_connection(stream, router.clone(), limits, stopped.clone()));
        } else {
            tracing::info!(limit = limits.connections, "refused a connection: too many are open");
            if refused.len() < MAX_REFUSED {
                refused.spawn(refuse_connection(stream, busy.clone()));
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    while open.join_next().await.is_some() {}
}

/// Waits for the next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Server-sent events are small, and buffering would delay tokens.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) if is_client_error(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Returns whether the client disconnected before its connection was accepted.
fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

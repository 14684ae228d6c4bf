//! Serves the requests of one connection, or refuses the connection.

use crate::body::TimedBody;
use crate::limits::ServerLimits;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt as _;

/// Time for a refused client to send its request, and again to read the response.
const LINGER: Duration = Duration::from_secs(1);

/// Serves the requests of a connection until it ends. Once `stopping` is true, the current request is the last one.
pub async fn handle_connection(
    stream: TcpStream,
    router: Router,
    limits: ServerLimits,
    stopping: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        router.clone().oneshot(request.map(|body| TimedBody::new(body, limits.body)))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = wait_for_stop(stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

async fn wait_for_stop(mut stopping: watch::Receiver<bool>) {
    // The sender is dropped when the server has ended.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Sends status 503 with a JSON body, and closes the connection.
pub async fn refuse_connection(stream: TcpStream, body: Arc<str>) {
    // On failure the client has disconnected.
    let _ = timeout(2 * LINGER, send_refusal(stream, &body)).await;
}

async fn send_refusal(mut stream: TcpStream, body: &str) -> io::Result<()> {
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // Clients reject a response that arrives before they send the request.
    let _ = timeout(LINGER, stream.readable()).await;
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection, and the client might lose the response.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

//! Reads the bodies of requests within limits on size and time.

use axum::BoxError;
use axum::body::Body;
use futures::StreamExt as _;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep, timeout};

/// Multiple of the permitted size up to which a body is read before the connection is closed.
const OVERREAD_FACTOR: usize = 8;

/// Reason why a body could not be read.
#[derive(Debug)]
pub enum BodyError {
    /// The body has too many bytes.
    TooLarge,
    /// The body did not arrive in time.
    Late,
    /// The body ended early, or [it made no progress](is_stalled).
    Broken(axum::Error),
}

/// Reads a body of at most `max` bytes, which must arrive within `limit`. A larger body is read to its end up to
/// `OVERREAD_FACTOR` times `max`, so that the client receives the response.
pub async fn read_body(body: Body, max: usize, limit: Duration) -> Result<Vec<u8>, BodyError> {
    timeout(limit, collect(body, max)).await.unwrap_or(Err(BodyError::Late))
}

async fn collect(body: Body, max: usize) -> Result<Vec<u8>, BodyError> {
    let (mut stream, mut bytes, mut total) = (body.into_data_stream(), Vec::new(), 0_usize);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(BodyError::Broken)?;
        total = total.saturating_add(chunk.len());
        if total <= max {
            bytes.extend_from_slice(&chunk);
        } else if total > max.saturating_mul(OVERREAD_FACTOR) {
            break;
        }
    }
    if total > max { Err(BodyError::TooLarge) } else { Ok(bytes) }
}

/// Returns whether an error was caused by a body that made no progress.
pub fn is_stalled(error: &(dyn StdError + 'static)) -> bool {
    error.is::<StalledBody>() || error.source().is_some_and(is_stalled)
}

/// Error of a body of which no bytes arrived for this time.
#[derive(Debug)]
struct StalledBody(Duration);

impl fmt::Display for StalledBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no bytes of the body arrived for {} s", self.0.as_secs())
    }
}

impl StdError for StalledBody {}

/// Body that fails when its reader has waited too long for the next bytes.
pub struct TimedBody {
    body: Incoming,
    limit: Duration,
    /// End of the current wait.
    wait: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    /// Limits each wait for bytes of `body` to `limit`.
    pub fn new(body: Incoming, limit: Duration) -> Self {
        Self { body, limit, wait: None }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.wait = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let limit = this.limit;
        let wait = this.wait.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(wait.as_mut().poll(cx));
        this.wait = None;
        Poll::Ready(Some(Err(BoxError::from(StalledBody(limit)))))
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

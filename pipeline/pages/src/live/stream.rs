//! Server-sent events of one page.

use super::message::message;
use super::runs::LiveRuns;
use super::watcher::{MAX_SUBSCRIBERS, Subscriber};
use crate::error::PageError;
use crate::state::PageState;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse as _, Response, Sse};
use futures::Stream;
use futures::stream::{BoxStream, StreamExt as _, once, unfold};
use std::convert::Infallible;
use std::sync::Arc;

/// Name of the event with a note; no further event follows.
const NOTE: &str = "note";

/// Sends the changes of a run, from the present state on, until it is over.
pub async fn events(
    State(app): State<Arc<PageState>>,
    Extension(live): Extension<Arc<LiveRuns>>,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let run = live.find(&app.store, &name).await?;
    let events: BoxStream<'static, Result<Event, Infallible>> =
        match live.watchers.subscribe(&app.store, &app.clock, &run) {
            Some(subscriber) => messages(subscriber).map(|json| Ok(Event::default().data(json))).boxed(),
            None => {
                let note =
                    format!("{MAX_SUBSCRIBERS} pages follow runs here already; reload this page to see what is new");
                once(async move { Ok(Event::default().event(NOTE).data(note)) }).boxed()
            }
        };
    let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    // Otherwise nginx collects the events before it sends any.
    response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// Returns the messages to a subscriber. A slow one gets the changes since its last message in one.
fn messages(subscriber: Subscriber) -> impl Stream<Item = String> {
    unfold(Some((subscriber, 0)), |state| async move {
        let (mut subscriber, sent) = state?;
        subscriber.snapshots.changed().await.ok()?;
        let new = subscriber.snapshots.borrow_and_update().clone();
        let version = new.snapshot.version;
        let is_next = sent > 0 && version == sent + 1;
        let json = if is_next { new.json.to_string() } else { message(&new.snapshot, sent, new.refresh) };
        Some((json, (!new.is_last).then_some((subscriber, version))))
    })
}

#[cfg(test)]
mod tests {
    use super::super::watcher::Watchers;
    use super::*;
    use crate::testing::{RUN, TestRun};
    use serde_json::Value;
    use std::time::Duration;
    use trainyard_core::RunId;

    async fn read(stream: &mut (impl Stream<Item = String> + Unpin)) -> Option<Value> {
        let next = tokio::time::timeout(Duration::from_secs(20), stream.next());
        let json = next.await.expect("a message within 20 s");
        json.map(|json| serde_json::from_str(&json).unwrap())
    }

    #[tokio::test]
    async fn pages_get_the_present_state_and_then_changes() {
        let mut test = TestRun::create(&[("sft", &[]), ("rl", &["sft"])]).await;
        let watchers = Watchers::new(Arc::default());
        let run = RunId(RUN.into());
        let mut early = Box::pin(messages(watchers.subscribe(&test.app.store, &test.app.clock, &run).unwrap()));
        let first = read(&mut early).await.unwrap();
        assert_eq!(first["stages"].as_array().unwrap().len(), 2);
        test.start("sft", 1, "gpu").await;
        let second = read(&mut early).await.unwrap();
        assert_eq!(second["stages"].as_array().unwrap().len(), 1);
        assert_eq!(second["run"]["stage"], "sft");
        test.finish().await;
        let last = read(&mut early).await.unwrap();
        assert_eq!(last["over"], true);
        assert_eq!(read(&mut early).await, None, "the stream ends with the run");
    }
}

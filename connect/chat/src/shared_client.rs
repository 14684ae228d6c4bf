//! One model for many threads: each waits for its own answer, and a separate thread sends the requests.

use crate::client::{ChatClient, ChatRequestId};
use crate::request::ChatRequest;
use crate::response::ChatResponse;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Interval at which new questions are read while answers are awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Result of a question. The outer error ends the stage, as that of [`ChatClient::next`] does; the inner one is about this
/// question alone.
pub type ChatResult = Result<Result<ChatResponse>>;

/// A model for several threads. Ends with its last handle.
pub struct SharedChatClient(Sender<(ChatRequest, Promise)>);

/// A pending answer.
#[derive(Clone)]
pub struct Promise(Arc<PromiseState>);

#[derive(Default)]
struct PromiseState {
    reply: Mutex<Option<ChatResult>>,
    arrived: Condvar,
}

impl SharedChatClient {
    /// Starts the thread. Errors: retryable, if there is no thread for it.
    pub fn open(chat: ChatClient) -> Result<Self> {
        let (asks, asked) = channel();
        let thread = std::thread::Builder::new().name("model-line".into()).spawn(move || serve(chat, &asked));
        thread.map_err(|e| Error::retryable(format!("no thread to ask a model from: {e}")))?;
        Ok(Self(asks))
    }
    /// Sends a question.
    pub fn send(&self, question: ChatRequest) -> Promise {
        let promise = Promise(Arc::default());
        if self.0.send((question, promise.clone())).is_err() {
            promise.fulfill(Err(Error::bug("the thread that asks a model is gone")));
        }
        promise
    }
}

impl Promise {
    /// Returns the reply, if it has arrived.
    pub fn poll(&self) -> Option<ChatResult> {
        self.wait(Duration::ZERO)
    }
    /// Blocks up to `wait` for the reply.
    pub fn wait(&self, wait: Duration) -> Option<ChatResult> {
        let reply = self.0.reply.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.arrived.wait_timeout_while(reply, wait, |reply| reply.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
    fn fulfill(&self, reply: ChatResult) {
        *self.0.reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        self.0.arrived.notify_all();
    }
}

/// Sends questions until all handles are dropped. An error that ends the stage is the reply to all later questions.
fn serve(mut chat: ChatClient, asked: &Receiver<(ChatRequest, Promise)>) {
    let mut waiting: BTreeMap<ChatRequestId, Promise> = BTreeMap::new();
    let mut broken = None;
    loop {
        let first = match waiting.is_empty() {
            true => asked.recv().map_err(|_| TryRecvError::Disconnected),
            false => asked.try_recv(),
        };
        if matches!(first, Err(TryRecvError::Disconnected)) {
            return;
        }
        for (question, promise) in first.into_iter().chain(asked.try_iter()) {
            match broken.clone().map_or_else(|| chat.send(&question), Err) {
                Ok(ticket) => drop(waiting.insert(ticket, promise)),
                Err(error) => promise.fulfill(Err(error)),
            }
        }
        match chat.next(POLL_INTERVAL) {
            Ok(Some((ticket, answer))) => waiting.remove(&ticket).iter().for_each(|p| p.fulfill(Ok(answer.clone()))),
            Ok(None) => {}
            Err(error) => {
                std::mem::take(&mut waiting).values().for_each(|promise| promise.fulfill(Err(error.clone())));
                broken = Some(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Models;
    use crate::options::ChatOptions;
    use crate::testing::{MockChatServer, MockResponse, text_response};
    use trainyard_core::ErrorKind;

    const LONG: Duration = Duration::from_secs(20);

    fn line(server: &MockChatServer) -> SharedChatClient {
        let options = ChatOptions { attempts: 1, ..ChatOptions::new(server.url(), "m") };
        SharedChatClient::open(ChatClient::open(&Models::in_memory(), &options).unwrap()).unwrap()
    }

    #[test]
    fn threads_get_their_own_answers() {
        let server =
            MockChatServer::start(|body, _| text_response(body, &format!("re: {}", body["messages"][0]["content"])));
        let line = Arc::new(line(&server));
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let line = Arc::clone(&line);
                std::thread::spawn(move || line.send(ChatRequest::from_prompt("", format!("{n}"))).wait(LONG))
            })
            .collect();
        for (n, thread) in threads.into_iter().enumerate() {
            let answer = thread.join().unwrap().unwrap().unwrap().unwrap();
            assert_eq!(answer.text, format!("re: \"{n}\""));
        }
        // Equal questions get the same answer, without another request.
        assert_eq!(
            line.send(ChatRequest::from_prompt("", "3")).wait(LONG).unwrap().unwrap().unwrap().text,
            "re: \"3\""
        );
        assert_eq!(server.requests(), 8);
    }

    #[test]
    fn a_refused_question_stands_alone_and_a_server_that_is_away_ends_everything() {
        let server = MockChatServer::start(|body, _| match body["messages"][0]["content"].as_str() {
            Some("long") => MockResponse::Status(400, "too long"),
            Some("away") => MockResponse::Status(503, "away"),
            _ => text_response(body, "fine"),
        });
        let line = line(&server);
        let ask = |text: &str| line.send(ChatRequest::from_prompt("", text)).wait(LONG).unwrap();
        assert!(ask("long").unwrap().unwrap_err().message.contains("too long"));
        assert_eq!(ask("short").unwrap().unwrap().text, "fine");
        assert_eq!(ask("away").unwrap_err().kind, ErrorKind::Retryable);
        assert_eq!(ask("short again").unwrap_err().kind, ErrorKind::Retryable);
    }
}

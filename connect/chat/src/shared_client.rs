//! Shares one model between threads. Each thread waits for its own response, and a separate thread sends the requests.

use crate::client::{ChatClient, ChatRequestId};
use crate::request::ChatRequest;
use crate::response::ChatResponse;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;
use trainyard_core::{Error, Resolver, Result};

/// Interval at which new requests are read while responses are awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Result of a request. The outer error ends the stage, like that of [`ChatClient::next`]; the inner error concerns one
/// request.
pub type ChatResult = Result<Result<ChatResponse>>;

/// A pending response.
pub type Promise = trainyard_core::Promise<ChatResult>;

/// Handle of a model for several threads. The sending thread ends when the last handle is dropped.
pub struct SharedChatClient(Sender<(ChatRequest, Resolver<ChatResult>)>);

impl SharedChatClient {
    /// Moves the client to a new thread, which sends the requests. Errors: retryable, if the thread cannot be started.
    pub fn open(chat: ChatClient) -> Result<Self> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("model-line".into()).spawn(move || serve(chat, &receiver));
        thread
            .map_err(|e| Error::retryable(format!("cannot start the thread that sends requests to the model: {e}")))?;
        Ok(Self(sender))
    }
    /// Sends a request and returns a promise of its response. Does not block.
    pub fn send(&self, request: ChatRequest) -> Promise {
        let (promise, resolver) =
            Promise::new(|| Err(Error::bug("the thread that sends requests to the model has ended")));
        // If the thread has ended, the resolver is dropped and the promise fails with the error above.
        self.0.send((request, resolver)).ok();
        promise
    }
}

/// Sends requests until all handles are dropped. After an error that ends the stage, every request fails with this
/// error.
fn serve(mut chat: ChatClient, requests: &Receiver<(ChatRequest, Resolver<ChatResult>)>) {
    let mut waiting: BTreeMap<ChatRequestId, Resolver<ChatResult>> = BTreeMap::new();
    let mut failure = None;
    loop {
        let first = match waiting.is_empty() {
            true => requests.recv().map_err(|_| TryRecvError::Disconnected),
            false => requests.try_recv(),
        };
        if matches!(first, Err(TryRecvError::Disconnected)) {
            return;
        }
        for (request, resolver) in first.into_iter().chain(requests.try_iter()) {
            match failure.clone().map_or_else(|| chat.send(&request), Err) {
                Ok(id) => drop(waiting.insert(id, resolver)),
                Err(error) => resolver.resolve(Err(error)),
            }
        }
        match chat.next(POLL_INTERVAL) {
            Ok(Some((id, response))) => {
                if let Some(resolver) = waiting.remove(&id) {
                    resolver.resolve(Ok(response));
                }
            }
            Ok(None) => {}
            Err(error) => {
                std::mem::take(&mut waiting).into_values().for_each(|resolver| resolver.resolve(Err(error.clone())));
                failure = Some(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Models;
    use crate::options::ChatOptions;
    use std::sync::Arc;
    use trainyard_core::ErrorKind;
    use trainyard_testkit::chat::{MockChatServer, MockResponse, says};

    const LONG: Duration = Duration::from_secs(20);

    fn client(server: &MockChatServer) -> SharedChatClient {
        let options = ChatOptions { attempts: 1, ..ChatOptions::new(server.url(), "m") };
        SharedChatClient::open(ChatClient::open(&Models::in_memory(), &options).unwrap()).unwrap()
    }

    #[test]
    fn threads_get_their_own_responses() {
        let server = MockChatServer::start(|body, _| says(body, &format!("re: {}", body["messages"][0]["content"])));
        let client = Arc::new(client(&server));
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let client = Arc::clone(&client);
                std::thread::spawn(move || client.send(ChatRequest::from_prompt("", format!("{n}"))).wait(LONG))
            })
            .collect();
        for (n, thread) in threads.into_iter().enumerate() {
            let response = thread.join().unwrap().unwrap().unwrap().unwrap();
            assert_eq!(response.text, format!("re: \"{n}\""));
        }
        // Equal requests get the same response, without another request.
        assert_eq!(
            client.send(ChatRequest::from_prompt("", "3")).wait(LONG).unwrap().unwrap().unwrap().text,
            "re: \"3\""
        );
        assert_eq!(server.requests(), 8);
    }

    #[test]
    fn rejected_request_fails_alone_and_outage_fails_all() {
        let server = MockChatServer::start(|body, _| match body["messages"][0]["content"].as_str() {
            Some("long") => MockResponse::Status(400, "too long"),
            Some("away") => MockResponse::Status(503, "away"),
            _ => says(body, "fine"),
        });
        let client = client(&server);
        let send = |text: &str| client.send(ChatRequest::from_prompt("", text)).wait(LONG).unwrap();
        assert!(send("long").unwrap().unwrap_err().message.contains("too long"));
        assert_eq!(send("short").unwrap().unwrap().text, "fine");
        assert_eq!(send("away").unwrap_err().kind, ErrorKind::Retryable);
        assert_eq!(send("short again").unwrap_err().kind, ErrorKind::Retryable);
    }
}

//! One model for many threads: each waits for its own answer, and a separate thread sends the requests.

use crate::answer::Answer;
use crate::chat::{Chat, Ticket};
use crate::question::Question;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;
use trainyard_core::{Error, Resolver, Result};

/// Interval at which new questions are read while answers are awaited.
const LOOK: Duration = Duration::from_millis(10);

/// Result of a question. The outer error ends the stage, as that of [`Chat::next`] does; the inner one is about this
/// question alone.
pub type Reply = Result<Result<Answer>>;

/// A pending answer.
pub type Promise = trainyard_core::Promise<Reply>;

/// A model for several threads. Ends with its last handle.
pub struct Line(Sender<(Question, Resolver<Reply>)>);

impl Line {
    /// Starts the thread. Errors: retryable, if there is no thread for it.
    pub fn open(chat: Chat) -> Result<Self> {
        let (asks, asked) = channel();
        let thread = std::thread::Builder::new().name("model-line".into()).spawn(move || serve(chat, &asked));
        thread.map_err(|e| Error::retryable(format!("no thread to ask a model from: {e}")))?;
        Ok(Self(asks))
    }
    /// Sends a question.
    pub fn ask(&self, question: Question) -> Promise {
        let (promise, resolver) = Promise::new(|| Err(Error::bug("the thread that asks a model is gone")));
        // If the thread is gone, the resolver is dropped, which is that error.
        self.0.send((question, resolver)).ok();
        promise
    }
}

/// Sends questions until all handles are dropped. An error that ends the stage is the reply to all later questions.
fn serve(mut chat: Chat, asked: &Receiver<(Question, Resolver<Reply>)>) {
    let mut waiting: BTreeMap<Ticket, Resolver<Reply>> = BTreeMap::new();
    let mut broken = None;
    loop {
        let first = match waiting.is_empty() {
            true => asked.recv().map_err(|_| TryRecvError::Disconnected),
            false => asked.try_recv(),
        };
        if matches!(first, Err(TryRecvError::Disconnected)) {
            return;
        }
        for (question, resolver) in first.into_iter().chain(asked.try_iter()) {
            match broken.clone().map_or_else(|| chat.send(&question), Err) {
                Ok(ticket) => drop(waiting.insert(ticket, resolver)),
                Err(error) => resolver.give(Err(error)),
            }
        }
        match chat.next(LOOK) {
            Ok(Some((ticket, answer))) => {
                if let Some(resolver) = waiting.remove(&ticket) {
                    resolver.give(Ok(answer));
                }
            }
            Ok(None) => {}
            Err(error) => {
                std::mem::take(&mut waiting).into_values().for_each(|resolver| resolver.give(Err(error.clone())));
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
    use std::sync::Arc;
    use trainyard_core::ErrorKind;
    use trainyard_testkit::chat::{Reply as Served, Served as Server, says};

    const LONG: Duration = Duration::from_secs(20);

    fn line(server: &Server) -> Line {
        let options = ChatOptions { attempts: 1, ..ChatOptions::new(server.url(), "m") };
        Line::open(Chat::open(&Models::apart(), &options).unwrap()).unwrap()
    }

    #[test]
    fn threads_get_their_own_answers() {
        let server = Server::start(|body, _| says(body, &format!("re: {}", body["messages"][0]["content"])));
        let line = Arc::new(line(&server));
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let line = Arc::clone(&line);
                std::thread::spawn(move || line.ask(Question::of("", format!("{n}"))).wait(LONG))
            })
            .collect();
        for (n, thread) in threads.into_iter().enumerate() {
            let answer = thread.join().unwrap().unwrap().unwrap().unwrap();
            assert_eq!(answer.text, format!("re: \"{n}\""));
        }
        // Equal questions get the same answer, without another request.
        assert_eq!(line.ask(Question::of("", "3")).wait(LONG).unwrap().unwrap().unwrap().text, "re: \"3\"");
        assert_eq!(server.requests(), 8);
    }

    #[test]
    fn a_refused_question_stands_alone_and_a_server_that_is_away_ends_everything() {
        let server = Server::start(|body, _| match body["messages"][0]["content"].as_str() {
            Some("long") => Served::Status(400, "too long"),
            Some("away") => Served::Status(503, "away"),
            _ => says(body, "fine"),
        });
        let line = line(&server);
        let ask = |text: &str| line.ask(Question::of("", text)).wait(LONG).unwrap();
        assert!(ask("long").unwrap().unwrap_err().message.contains("too long"));
        assert_eq!(ask("short").unwrap().unwrap().text, "fine");
        assert_eq!(ask("away").unwrap_err().kind, ErrorKind::Retryable);
        assert_eq!(ask("short again").unwrap_err().kind, ErrorKind::Retryable);
    }
}

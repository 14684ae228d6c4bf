//! Client of a service: every line is a separate request, whose answer is a line.

use super::greeting::{Greeted, Greeting, Then, Turn};
use super::options::ServiceOptions;
use crate::programs::PeerOptions;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, ErrorKind, OptionProblem, Result, Secrets};
use trainyard_http::{Fault as Refusal, Heard, Post, Postbox, Reach};
use trainyard_process::{
    Answer, Fault, Hello, Log, Peer, Reply, Request, Responder, Seat, Ticket, about, answer, claim, hello, ready,
};

/// How long the end of the client waits until the service has received the ends of sessions.
const PARTING: Duration = Duration::from_secs(2);

pub struct Service(Arc<Core>);

struct Core {
    postbox: Postbox,
    /// Name of the part in messages: ``reward `http` ``.
    part: String,
    /// Name of the part with the address.
    place: String,
    /// Message of the handshake.
    hello: String,
    /// Fields that every request contains in addition to the line.
    about: String,
    /// Part of the names of sessions, so that two stages may use one service.
    client: String,
    requests: AtomicU64,
    lives: AtomicU64,
    greeting: Mutex<Greeting>,
    /// Number of the life of each session that the service may know.
    sessions: Mutex<BTreeMap<u64, u64>>,
    /// Number of sessions whose end the service has not acknowledged.
    parting: (Mutex<usize>, Condvar),
}

impl Service {
    /// Returns the client without sending a request. Errors: invalid (the options, a secret that the stage was not
    /// given).
    pub fn new(options: &ServiceOptions, about_part: Hello<'_>, secrets: &Secrets) -> Result<Self> {
        let Hello { role, name, seed } = about_part;
        let part = format!("{role} `{}`", if name.is_empty() { ServiceOptions::KIND } else { name });
        let open = || {
            let (address, limits) = (options.address()?, options.limits()?);
            let shown = address.to_string();
            Ok((Postbox::open(address, options.credentials(secrets)?, limits)?, shown))
        };
        let (postbox, address) = open().map_err(|e: Error| e.at(&part))?;
        // The name must differ from that of any other client on any host; no result depends on it.
        let client = format!("{:016x}", RandomState::new().build_hasher().finish());
        Ok(Self(Arc::new(Core {
            postbox,
            place: format!("{part} ({address})"),
            part,
            hello: hello(role, name, &options.options, seed),
            about: format!("\"hello\":{}", about(role, name, &options.options, seed)),
            client,
            requests: AtomicU64::new(1),
            lives: AtomicU64::new(1),
            greeting: Mutex::default(),
            sessions: Mutex::default(),
            parting: (Mutex::new(0), Condvar::new()),
        })))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a request that is answered with one JSON value.
fn post(line: &str, again: bool) -> Post {
    Post { again, whole: true, ..Post::json(line.trim_end().to_string()) }
}

impl Core {
    /// Calls `then` once the handshake is complete.
    fn greeted(self: &Arc<Self>, then: Then) {
        let turn = lock(&self.greeting).enter(then);
        match turn {
            Turn::Now(then, ready) => then(Ok(ready)),
            Turn::Greet => self.greet(),
            Turn::Wait => {}
        }
    }
    fn greet(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.postbox.post(post(&self.hello, true), move |answer| {
            let Some(core) = core.upgrade() else { return };
            let greeted = core.welcome(answer);
            let waiting = lock(&core.greeting).end(&greeted);
            waiting.into_iter().for_each(|then| then(greeted.clone()));
        });
    }
    fn welcome(&self, answer: Result<Heard, Refusal>) -> Greeted {
        let heard = answer.map_err(|refusal| Error::from(refusal).at(&self.part))?;
        ready(heard.body.trim().as_bytes()).map_err(|what| {
            let error = Error::invalid(format!("the service cannot be used: {what}")).at(&self.place);
            error.help("check the URL; the service answers the request `hello` of the protocol (docs/own-code.md)")
        })
    }
    /// Sends a request once the handshake is complete; for a session, with its life.
    fn ask(self: &Arc<Self>, request: &Request, life: Option<u64>) -> Ticket {
        let (ticket, to) = claim();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let line = request.line_with(number, &self.about);
        let core = Arc::downgrade(self);
        self.greeted(Box::new(move |greeted| match (greeted, core.upgrade()) {
            (Ok(ready), Some(core)) => {
                // A request that changes a session's state must not be repeated.
                let again = life.is_none() || ready["repeats"] == json!(true);
                core.send(number, post(&line, again), life, to);
            }
            (Err(error), _) => to.give(Err(Fault::Outage(error))),
            (Ok(_), None) => {}
        }));
        ticket
    }
    fn send(self: &Arc<Self>, number: u64, post: Post, life: Option<u64>, to: Responder) {
        let core = Arc::downgrade(self);
        self.postbox.post(post, move |answer| {
            if let Some(core) = core.upgrade() {
                to.give(core.heard(number, life, answer));
            }
        });
    }
    fn heard(&self, number: u64, life: Option<u64>, answered: Result<Heard, Refusal>) -> Answer {
        let heard = answered.map_err(|refusal| self.missed(refusal, life.is_some()))?;
        let wrong = |what: String| {
            let error = Error::data(format!("the service {what}")).at(&self.place);
            Fault::Outage(error.help("a request is answered with `id` and `result` or `error` (docs/own-code.md)"))
        };
        let (id, result) = answer(heard.body.trim().as_bytes()).map_err(wrong)?;
        if id != number {
            return Err(wrong(format!("answered request {id} when it was asked request {number}")));
        }
        result.map(|value| Reply { value, life: life.unwrap_or(0) }).map_err(Fault::Raised)
    }
    /// Returns the fault of a request without an answer. A session whose state may be gone or half changed is begun
    /// again.
    fn missed(&self, refusal: Refusal, of_session: bool) -> Fault {
        let Refusal { status, reach, .. } = refusal;
        let error = Error::from(refusal).at(&self.part);
        match status {
            _ if !of_session => Fault::Outage(error),
            Some(410) => {
                let lost = Error::retryable("the service does not know this session any more").at(&self.place);
                Fault::Lost(lost.caused_by(&error))
            }
            _ if reach == Reach::Late => Fault::Late(error),
            Some(429) => Fault::Outage(error),
            _ if error.kind == ErrorKind::Retryable => Fault::Lost(error),
            _ => Fault::Outage(error),
        }
    }
    /// Returns the service's name of a session in one of its lives.
    fn name(&self, life: u64) -> Value {
        json!(format!("{}-{life}", self.client))
    }
    /// Starts a new life of a session, which ends an earlier one.
    fn begin(self: &Arc<Self>, session: u64) -> u64 {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let before = lock(&self.sessions).insert(session, life);
        before.into_iter().for_each(|life| self.close(life));
        life
    }
    /// Notifies the service that a session is over; only the end of the client waits for the answer.
    fn close(self: &Arc<Self>, life: u64) {
        let body = Map::from_iter([("session".to_string(), self.name(life))]);
        let Ok(request) = Request::new("close", &body) else { return };
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        *lock(&self.parting.0) += 1;
        let core = Arc::downgrade(self);
        self.postbox.post(post(&request.line_with(number, &self.about), false), move |_| {
            if let Some(core) = core.upgrade() {
                *lock(&core.parting.0) -= 1;
                core.parting.1.notify_all();
            }
        });
    }
}

impl Peer for Service {
    fn place(&self) -> &str {
        &self.0.place
    }
    fn ready(&self) -> Ticket {
        let (ticket, to) = claim();
        self.0.greeted(Box::new(move |greeted| {
            to.give(greeted.map(|value| Reply { value, life: 0 }).map_err(Fault::Outage));
        }));
        ticket
    }
    fn put(&self, request: Request) -> Ticket {
        self.0.ask(&request, None)
    }
    fn put_in(&self, seat: Seat, op: &str, mut body: Map<String, Value>) -> Result<Ticket> {
        let core = &self.0;
        let life = match (op, seat.life) {
            ("close", _) => {
                let life = lock(&core.sessions).remove(&seat.session);
                life.into_iter().for_each(|life| core.close(life));
                return Ok(claim().0);
            }
            ("start", _) => core.begin(seat.session),
            ("fork", Some(from)) => {
                body.insert("from".into(), core.name(from));
                core.begin(seat.session)
            }
            (_, Some(life)) => life,
            (_, None) => return Err(Error::bug(format!("`{op}` of a session that was not begun"))),
        };
        body.insert("session".into(), core.name(life));
        Ok(core.ask(&Request::new(op, &body)?, Some(life)))
    }
}

impl PeerOptions for ServiceOptions {
    const KIND: &'static str = "http";
    fn problems(&self) -> Vec<OptionProblem> {
        self.mistakes()
    }
    fn open(&self, hello: Hello<'_>, secrets: &Secrets, _: &Log) -> Result<Arc<dyn Peer>> {
        Ok(Arc::new(Service::new(self, hello, secrets)?))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let (left, heard) = &self.0.parting;
        // A service that does not answer drops its sessions by itself.
        drop(heard.wait_timeout_while(lock(left), PARTING, |left| *left > 0));
    }
}

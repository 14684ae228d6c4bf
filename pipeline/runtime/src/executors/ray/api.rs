//! HTTP to the dashboard of a Ray cluster: what is asked, and what its answers mean.
//!
//! Ray answers 500 to nearly everything that it refuses, with a Python traceback as the body. The true status is in
//! there, because its head hands requests on to an agent: `Request failed with status code 400`.

use super::job::{Job, Submission};
use super::nodes::{self, Node};
use super::options::RayOptions;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use trainyard_core::{Error, Result};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one request may take. Ray itself waits up to 30 s for its agent.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer about one thing. Of a failed job it quotes at most 20,000 characters.
const ONE: usize = 4 << 20;
/// Bytes of an answer about all jobs or nodes.
const ALL: usize = 64 << 20;
/// Bytes that are kept of a job's output.
const OUTPUT: usize = 64 << 10;
/// Characters of an answer that an error quotes.
const QUOTE: usize = 400;

/// One cluster.
pub(super) struct Api {
    client: Client,
    address: String,
    token_variable: Option<String>,
}

/// What Ray did with a submission.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    /// It has a new job.
    New,
    /// It has had a job of this name.
    Before,
}

#[derive(Deserialize)]
struct Stopped {
    stopped: bool,
}

#[derive(Deserialize)]
struct Output {
    logs: String,
}

/// An answer that has been read.
struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    /// Whether the body was longer than what was kept.
    cut: bool,
}

impl Answer {
    /// Whether Ray says that it has no such job. Whoever else answers 404, a gate before Ray perhaps, knows nothing of
    /// jobs, and must not make them lost.
    fn is_unknown_job(&self, id: &str) -> bool {
        self.status == StatusCode::NOT_FOUND && String::from_utf8_lossy(&self.body).contains(id)
    }
}

impl Api {
    /// A client of the cluster that the options name; nothing is sent. Errors: invalid (the options).
    pub(super) fn new(options: &RayOptions) -> Result<Self> {
        trainyard_store::install_tls();
        // A redirect leads to a page where people log in, which is nothing to send a token to.
        let client = Client::builder().connect_timeout(CONNECT).timeout(PATIENCE).redirect(Policy::none());
        let client = client.build().map_err(|e| Error::invalid("no HTTP client can be made").caused_by(&e))?;
        Ok(Self { client, address: options.address()?, token_variable: options.token_variable()? })
    }
    /// Where the cluster is.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
    /// Submits a job under its name. Errors: retryable, invalid (Ray refuses it).
    pub(super) async fn submit(&self, submission: &Submission<'_>) -> Result<Submitted> {
        let body = serde_json::to_vec(submission).map_err(|e| Error::bug("a submission is not JSON").caused_by(&e))?;
        let request = self.request(Method::POST, "/api/jobs/")?.header("content-type", "application/json").body(body);
        let answer = self.send(request, ONE).await?;
        if answer.status.is_success() {
            return Ok(Submitted::New);
        }
        let exists = format!("Job with submission_id {} already exists", submission.submission_id);
        if String::from_utf8_lossy(&answer.body).contains(&exists) {
            return Ok(Submitted::Before);
        }
        Err(self.refusal(&answer).at("the job was not submitted"))
    }
    /// A job; none that Ray does not know.
    pub(super) async fn job(&self, id: &str) -> Result<Option<Job>> {
        let answer = self.send(self.request(Method::GET, &format!("/api/jobs/{id}"))?, ONE).await?;
        match answer.status {
            _ if answer.is_unknown_job(id) => Ok(None),
            status if status.is_success() => self.read(&answer).map(Some),
            _ => Err(self.refusal(&answer)),
        }
    }
    /// All jobs that Ray remembers; none if the list is longer than what is read.
    pub(super) async fn jobs(&self) -> Result<Option<Vec<Job>>> {
        let answer = self.send(self.request(Method::GET, "/api/jobs/")?, ALL).await?;
        match (answer.status.is_success(), answer.cut) {
            (true, true) => Ok(None),
            (true, false) => self.read(&answer).map(Some),
            (false, _) => Err(self.refusal(&answer)),
        }
    }
    /// Asks a job to stop. True if Ray has passed the request on, false if there was nobody to pass it to; also of a
    /// job that Ray does not know.
    pub(super) async fn stop(&self, id: &str) -> Result<bool> {
        let answer = self.send(self.request(Method::POST, &format!("/api/jobs/{id}/stop"))?, ONE).await?;
        match answer.status {
            _ if answer.is_unknown_job(id) => Ok(false),
            status if status.is_success() => Ok(self.read::<Stopped>(&answer)?.stopped),
            _ => Err(self.refusal(&answer)),
        }
    }
    /// The end of a job's output; empty before it starts.
    pub(super) async fn output(&self, id: &str) -> Result<String> {
        let answer = self.send(self.request(Method::GET, &format!("/api/jobs/{id}/logs"))?, ALL).await?;
        match (answer.status, answer.cut) {
            _ if answer.is_unknown_job(id) => Ok(String::new()),
            // Ray sends all of it at once.
            (_, true) => Ok(format!("(the output is too long to show; `ray job logs {id}` prints it)\n")),
            (status, false) if status.is_success() => Ok(tail(self.read::<Output>(&answer)?.logs)),
            _ => Err(self.refusal(&answer)),
        }
    }
    /// What is in use and what waits, as `ray status` prints it; none if this Ray does not tell.
    pub(super) async fn usage(&self) -> Result<Option<String>> {
        Ok(self.get(nodes::USAGE, ONE).await?.map(nodes::usage))
    }
    /// The nodes that are alive; none if this Ray does not tell.
    pub(super) async fn nodes(&self) -> Result<Option<Vec<Node>>> {
        Ok(self.get(nodes::PATH, ALL).await?.map(nodes::alive))
    }
    async fn get<T: DeserializeOwned>(&self, path: &str, limit: usize) -> Result<Option<T>> {
        let answer = self.send(self.request(Method::GET, path)?, limit).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => self.read(&answer).map(Some),
            _ => Err(self.refusal(&answer)),
        }
    }
    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder> {
        let request = self.client.request(method, format!("{}{path}", self.address));
        let Some(variable) = &self.token_variable else { return Ok(request) };
        let token = std::env::var(variable).map_err(|_| {
            Error::invalid(format!("the variable {variable} is not set"))
                .help("set it to the token of the Ray cluster (the pool's `token`)")
        })?;
        Ok(request.bearer_auth(token.trim()))
    }
    /// Sends a request and reads at most `limit` bytes of the answer.
    async fn send(&self, request: RequestBuilder, limit: usize) -> Result<Answer> {
        let mut response = request.send().await.map_err(|e| self.silence(e))?;
        let (mut body, mut cut) = (Vec::new(), false);
        while let Some(piece) = response.chunk().await.map_err(|e| self.silence(e))? {
            let room = limit - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                cut = true;
                break;
            }
        }
        Ok(Answer { status: response.status(), body, cut })
    }
    /// The error of a request without an answer.
    fn silence(&self, error: reqwest::Error) -> Error {
        Error::retryable(format!("no answer from Ray at {}", self.address))
            .help("check that its head runs, and that `address` of the pool is that of its dashboard")
            .caused_by(&error.without_url())
    }
    fn read<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T> {
        serde_json::from_slice(&answer.body).map_err(|e| {
            Error::invalid(format!("what answers at {} is not a Ray dashboard: {}", self.address, quote(&answer.body)))
                .help("`address` of the pool must be the address under which Ray shows its dashboard")
                .caused_by(&e)
        })
    }
    /// The error of an answer that is no success.
    fn refusal(&self, answer: &Answer) -> Error {
        let (status, words) = (answer.status, quote(&answer.body));
        let error = |make: fn(String) -> Error| make(format!("Ray at {} answered {status}: {words}", self.address));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => error(Error::invalid)
                .help("`token: env:NAME` of the pool names the variable that holds the cluster's token"),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => error(Error::retryable),
            status if status.is_redirection() => {
                error(Error::invalid).help("`address` of the pool must be the dashboard itself, not a page before it")
            }
            StatusCode::NOT_FOUND => {
                error(Error::retryable).help("check that `address` of the pool is that of the cluster's dashboard")
            }
            status if status.is_client_error() || refused_by_agent(&answer.body) => error(Error::invalid),
            _ => error(Error::retryable),
        }
    }
}

/// The last bytes of a text, from the beginning of a line.
fn tail(text: String) -> String {
    if text.len() <= OUTPUT {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - OUTPUT);
    let line = text[from..].find('\n').map_or(from, |at| from + at + 1);
    text[line..].to_string()
}

/// Whether the agent to which Ray's head handed the request found it wrong.
fn refused_by_agent(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("Request failed with status code 4")
}

/// The line of an answer that says what is wrong: of a traceback the last one with words.
fn quote(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(ONE)]);
    let line = text.lines().rev().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric));
    line.unwrap_or("(nothing)").chars().take(QUOTE).collect()
}

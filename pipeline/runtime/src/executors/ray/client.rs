//! Sends HTTP requests to a Ray dashboard and interprets its responses.
//!
//! Ray responds with status 500 to nearly everything that it refuses, with a Python traceback as the body. The actual
//! status is in the body, because the head forwards requests to an agent: `Request failed with status code 400`.

use super::job::{RayJob, RayJobRequest};
use super::nodes::{self, RayNode};
use super::options::RayOptions;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Connect timeout.
const CONNECT: Duration = Duration::from_secs(5);
/// Request timeout. Ray itself waits up to 30 s for its agent.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of a response about one object. Ray quotes at most 20,000 characters of a failed job's output.
const ONE: usize = 4 << 20;
/// Maximum bytes of a response about all jobs or nodes.
const ALL: usize = 64 << 20;
/// Maximum bytes kept of a job's output.
const OUTPUT: usize = 64 << 10;
/// Maximum characters of a response quoted in an error.
const QUOTE: usize = 400;

/// Client of one cluster.
pub(super) struct RayClient {
    client: Client,
    address: String,
    token_variable: Option<String>,
}

/// Result of a submission.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubmitResult {
    /// A new job was created.
    New,
    /// A job with this submission id already exists.
    Existing,
}

#[derive(Deserialize)]
struct StopResponse {
    stopped: bool,
}

#[derive(Deserialize)]
struct LogsResponse {
    logs: String,
}

/// Response that has been read.
struct RayResponse {
    status: StatusCode,
    body: Vec<u8>,
    /// Whether the body was longer than the limit.
    cut: bool,
}

impl RayResponse {
    /// Returns whether Ray reports that it has no such job. A 404 of another server, such as a gateway before Ray, must
    /// not make jobs lost.
    fn is_unknown_job(&self, id: &str) -> bool {
        self.status == StatusCode::NOT_FOUND && String::from_utf8_lossy(&self.body).contains(id)
    }
}

impl RayClient {
    /// Creates a client of the cluster in the options without sending a request. Errors: invalid (the options).
    pub(super) fn new(options: &RayOptions) -> Result<Self> {
        trainyard_store::install_tls();
        // A redirect leads to a login page, which must not receive the token.
        let client = Client::builder().connect_timeout(CONNECT).timeout(RESPONSE_TIMEOUT).redirect(Policy::none());
        let client = client.build().map_err(|e| Error::invalid("cannot create an HTTP client").caused_by(&e))?;
        Ok(Self { client, address: options.address()?, token_variable: options.token_variable()? })
    }
    /// Returns the address of the cluster.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
    /// Submits a job under its submission id. Errors: retryable (no response, or a temporary fault of Ray), invalid
    /// (Ray refuses the job).
    pub(super) async fn submit(&self, submission: &RayJobRequest<'_>) -> Result<SubmitResult> {
        let body = serde_json::to_vec(submission).map_err(|e| Error::bug("a submission is not JSON").caused_by(&e))?;
        let request = self.request(Method::POST, "/api/jobs/")?.header("content-type", "application/json").body(body);
        let response = self.send(request, ONE).await?;
        if response.status.is_success() {
            return Ok(SubmitResult::New);
        }
        let exists = format!("Job with submission_id {} already exists", submission.submission_id);
        if String::from_utf8_lossy(&response.body).contains(&exists) {
            return Ok(SubmitResult::Existing);
        }
        Err(self.refusal(&response).at("the job was not submitted"))
    }
    /// Returns a job; `None` if Ray does not know it.
    pub(super) async fn job(&self, id: &str) -> Result<Option<RayJob>> {
        let response = self.send(self.request(Method::GET, &format!("/api/jobs/{id}"))?, ONE).await?;
        match response.status {
            _ if response.is_unknown_job(id) => Ok(None),
            status if status.is_success() => self.read(&response).map(Some),
            _ => Err(self.refusal(&response)),
        }
    }
    /// Lists all jobs known to Ray; returns `None` if the list exceeds the limit.
    pub(super) async fn jobs(&self) -> Result<Option<Vec<RayJob>>> {
        let response = self.send(self.request(Method::GET, "/api/jobs/")?, ALL).await?;
        match (response.status.is_success(), response.cut) {
            (true, true) => Ok(None),
            (true, false) => self.read(&response).map(Some),
            (false, _) => Err(self.refusal(&response)),
        }
    }
    /// Requests a job to stop. Returns true if Ray has forwarded the request, false if there was no process to receive
    /// it or Ray does not know the job.
    pub(super) async fn stop(&self, id: &str) -> Result<bool> {
        let response = self.send(self.request(Method::POST, &format!("/api/jobs/{id}/stop"))?, ONE).await?;
        match response.status {
            _ if response.is_unknown_job(id) => Ok(false),
            status if status.is_success() => Ok(self.read::<StopResponse>(&response)?.stopped),
            _ => Err(self.refusal(&response)),
        }
    }
    /// Returns the end of a job's output; empty before it starts.
    pub(super) async fn output(&self, id: &str) -> Result<String> {
        let response = self.send(self.request(Method::GET, &format!("/api/jobs/{id}/logs"))?, ALL).await?;
        match (response.status, response.cut) {
            _ if response.is_unknown_job(id) => Ok(String::new()),
            // Ray sends the complete output at once.
            (_, true) => Ok(format!("(the output is too long to show; `ray job logs {id}` prints it)\n")),
            (status, false) if status.is_success() => Ok(tail(self.read::<LogsResponse>(&response)?.logs)),
            _ => Err(self.refusal(&response)),
        }
    }
    /// Returns used resources and pending demands, as printed by `ray status`; `None` if this Ray version does not
    /// report them.
    pub(super) async fn usage(&self) -> Result<Option<String>> {
        Ok(self.get(nodes::USAGE, ONE).await?.map(nodes::usage))
    }
    /// Lists live nodes; returns `None` if this Ray version does not report them.
    pub(super) async fn nodes(&self) -> Result<Option<Vec<RayNode>>> {
        Ok(self.get(nodes::PATH, ALL).await?.map(nodes::alive))
    }
    async fn get<T: DeserializeOwned>(&self, path: &str, limit: usize) -> Result<Option<T>> {
        let response = self.send(self.request(Method::GET, path)?, limit).await?;
        match response.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => self.read(&response).map(Some),
            _ => Err(self.refusal(&response)),
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
    /// Sends a request and reads at most `limit` bytes of the response.
    async fn send(&self, request: RequestBuilder, limit: usize) -> Result<RayResponse> {
        let mut response = request.send().await.map_err(|e| self.no_response(e))?;
        let (mut body, mut cut) = (Vec::new(), false);
        while let Some(chunk) = response.chunk().await.map_err(|e| self.no_response(e))? {
            let remaining = limit - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(remaining)]);
            if chunk.len() > remaining {
                cut = true;
                break;
            }
        }
        Ok(RayResponse { status: response.status(), body, cut })
    }
    /// Returns the error of a request without a response.
    fn no_response(&self, error: reqwest::Error) -> Error {
        Error::retryable(format!("no response from Ray at {}", self.address))
            .help("check that the head of the cluster runs, and that `address` of the pool is its dashboard")
            .caused_by(&error.without_url())
    }
    fn read<T: DeserializeOwned>(&self, response: &RayResponse) -> Result<T> {
        serde_json::from_slice(&response.body).map_err(|e| {
            Error::invalid(format!("the server at {} is not a Ray dashboard: {}", self.address, quote(&response.body)))
                .help("`address` of the pool must be the address under which Ray shows its dashboard")
                .caused_by(&e)
        })
    }
    /// Returns the error of an unsuccessful response.
    fn refusal(&self, response: &RayResponse) -> Error {
        let (status, quoted) = (response.status, quote(&response.body));
        let error =
            |make: fn(String) -> Error| make(format!("Ray at {} responded with {status}: {quoted}", self.address));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => error(Error::invalid)
                .help("`token: env:NAME` of the pool names the variable that holds the cluster's token"),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => error(Error::retryable),
            status if status.is_redirection() => {
                error(Error::invalid).help("`address` of the pool must be the dashboard itself, not a page before it")
            }
            StatusCode::NOT_FOUND => error(Error::retryable)
                .help("check that `address` of the pool is the address of the cluster's dashboard"),
            status if status.is_client_error() || refused_by_agent(&response.body) => error(Error::invalid),
            _ => error(Error::retryable),
        }
    }
}

/// Returns the last bytes of a text, from the beginning of a line.
fn tail(text: String) -> String {
    if text.len() <= OUTPUT {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - OUTPUT);
    let line = text[from..].find('\n').map_or(from, |at| from + at + 1);
    text[line..].to_string()
}

/// Returns whether the agent that received the request from Ray's head rejected it.
fn refused_by_agent(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("Request failed with status code 4")
}

/// Returns the line of a response that contains the error: the last line with a letter or digit, as in a traceback.
fn quote(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(ONE)]);
    let line = text.lines().rev().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric));
    line.unwrap_or("(nothing)").chars().take(QUOTE).collect()
}

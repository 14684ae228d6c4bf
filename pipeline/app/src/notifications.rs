//! Tells the webhooks of the site file that a run has ended.
//!
//! One POST for each notification whose `on` names the outcome. The body is JSON: `text` is the closing line, which
//! chat services show as it is, beside the run, its workflow, its status and what failed. A notification that cannot be
//! delivered is a warning and leaves the exit code alone. Of an address only the host is ever printed: many such
//! addresses are secrets.

use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result, RunId};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_spec::site::Notification;

/// Time for one try, connection included.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);
const TRIES: u32 = 3;

/// How a run ended, in the words of its page.
pub struct News<'a> {
    /// Id of the run.
    pub run: &'a RunId,
    /// State of the run as its journal tells it.
    pub view: &'a RunView,
    /// `succeeded`, `failed`, `cancelled`.
    pub status: &'static str,
    /// One line.
    pub text: String,
}

/// Sends the notifications that the site asks for; a run that has not ended sends none. Gives one error for each that
/// could not be delivered.
pub async fn send(notifications: &[Notification], news: &News<'_>) -> Vec<Error> {
    let mut failed = Vec::new();
    if news.view.finished.is_none() {
        return failed;
    }
    let body = body(news).to_string();
    for notification in notifications.iter().filter(|n| n.on.iter().any(|name| name == news.status)) {
        failed.extend(deliver(notification, &body).await.err());
    }
    failed
}

fn body(news: &News<'_>) -> Value {
    let view = news.view;
    let failed: Vec<Value> = view.stages.iter().flat_map(failures).collect();
    json!({
        "text": news.text,
        "run": news.run.0,
        "workflow": view.workflow,
        "status": news.status,
        "failed": failed,
    })
}

/// The checks that made a stage fail, or else its error, which would only repeat them.
fn failures(stage: &StageView) -> Vec<Value> {
    let checks = stage.checks.iter().filter(|c| c.gates && !c.passed).map(trainyard_engine::checks::describe);
    let mut messages: Vec<String> = checks.collect();
    if messages.is_empty() {
        messages.extend(stage.error.iter().map(|error| error.message.clone()));
    }
    messages.into_iter().map(|message| json!({"stage": stage.stage.0, "error": message})).collect()
}

async fn deliver(notification: &Notification, body: &str) -> Result<()> {
    let url = address(&notification.webhook).at("a notification was not sent")?;
    let place = format!("the notification to {}", url.host_str().unwrap_or("its webhook"));
    let client = client().map_err(|e| Error::retryable(format!("{place}: no client: {}", e.without_url())))?;
    let mut tries = 1;
    loop {
        let reason = match post(&client, url.clone(), body).await {
            Ok(status) if status.is_success() => return Ok(()),
            Ok(status) => format!("the server answered {status}"),
            Err(error) => format!("no answer: {}", innermost(&error.without_url())),
        };
        if tries == TRIES {
            return Err(Error::retryable(format!("{place} was not delivered: {reason}"))
                .help("see `notifications` in the site file"));
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// The address, or the content of the variable that holds it.
pub fn address(webhook: &str) -> Result<Url> {
    let text = match webhook.strip_prefix("env:") {
        None => webhook.to_string(),
        Some(variable) => std::env::var(variable).map_err(|_| {
            Error::invalid(format!("the variable {variable} is not set")).help("set it to the webhook's address")
        })?,
    };
    Url::parse(&text).map_err(|e| Error::invalid(format!("its webhook is not an address: {e}")))
}

fn client() -> std::result::Result<Client, reqwest::Error> {
    trainyard_store::install_tls();
    Client::builder().timeout(PATIENCE).build()
}

async fn post(client: &Client, url: Url, body: &str) -> std::result::Result<StatusCode, reqwest::Error> {
    let request = client.post(url).header("content-type", "application/json").body(body.to_string());
    request.send().await.map(|response| response.status())
}

/// The innermost cause: the outer errors only say that a request failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

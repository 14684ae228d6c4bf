//! Delivers a notification to one recipient.

use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_spec::site::Recipient;

/// Timeout of one attempt, including the connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const TRIES: u32 = 3;

/// Delivers a notification: `text` to Slack, `body` to other recipients. Errors: invalid (the address), retryable (the
/// notification was not delivered).
pub async fn deliver(recipient: &Recipient, text: &str, body: &Value) -> Result<()> {
    match recipient {
        Recipient::Webhook(address) => post(address, &body.to_string()).await,
        Recipient::Slack(address) => post(address, &json!({"text": text}).to_string()).await,
        Recipient::Command(words) => run(words, &body.to_string()).await,
    }
}

async fn post(webhook: &str, body: &str) -> Result<()> {
    let url = address(webhook).at("a notification was not sent")?;
    let place = format!("the notification to {}", url.host_str().unwrap_or("its webhook"));
    let client = client().map_err(|e| Error::retryable(format!("{place}: no client: {}", e.without_url())))?;
    let mut tries = 1;
    loop {
        let reason = match try_once(&client, url.clone(), body).await {
            Ok(status) if status.is_success() => return Ok(()),
            Ok(status) => format!("the server responded with {status}"),
            Err(error) => format!("no response: {}", innermost(&error.without_url())),
        };
        if tries == TRIES {
            return Err(not_delivered(&place, &reason));
        }
        tries += 1;
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Parses the webhook's address, which `env:VARIABLE` reads from a variable.
pub fn address(webhook: &str) -> Result<Url> {
    let text = match webhook.strip_prefix("env:") {
        None => webhook.to_string(),
        Some(variable) => std::env::var(variable).map_err(|_| {
            Error::invalid(format!("the variable {variable} is not set")).help("set it to the webhook's address")
        })?,
    };
    Url::parse(&text).map_err(|e| Error::invalid(format!("the webhook is not a URL: {e}")))
}

/// Passes the body to a program on its standard input, and waits for the program to end.
async fn run(words: &[String], body: &str) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let place = format!("the notification to the command {program}");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let delivery = async {
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        if let Some(mut stdin) = child.stdin.take() {
            // The program may exit before it has read the body.
            let _ = stdin.write_all(body.as_bytes()).await;
        }
        match child.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("it ended with {status}")),
            Err(e) => Err(e.to_string()),
        }
    };
    match tokio::time::timeout(COMMAND_TIMEOUT, delivery).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => Err(not_delivered(&place, &reason)),
        Err(_) => Err(not_delivered(&place, &format!("it took longer than {} s", COMMAND_TIMEOUT.as_secs()))),
    }
}

fn not_delivered(place: &str, reason: &str) -> Error {
    Error::retryable(format!("{place} was not delivered: {reason}")).help("check `notifications` in the site file")
}

fn client() -> std::result::Result<Client, reqwest::Error> {
    trainyard_store::install_tls();
    Client::builder().timeout(REQUEST_TIMEOUT).build()
}

async fn try_once(client: &Client, url: Url, body: &str) -> std::result::Result<StatusCode, reqwest::Error> {
    let request = client.post(url).header("content-type", "application/json").body(body.to_string());
    request.send().await.map(|response| response.status())
}

/// Returns the message of the innermost cause: outer errors only report that a request failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

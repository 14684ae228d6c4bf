//! Delivers a notification to one recipient.

use reqwest::redirect::Policy;
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

/// Delivers a notification: `text` to Slack, `body` to other recipients. A command does not inherit the variables
/// `hidden`. Errors: invalid (the address), retryable (the notification was not delivered).
pub async fn deliver(recipient: &Recipient, text: &str, body: &Value, hidden: &[&str]) -> Result<()> {
    match recipient {
        Recipient::Webhook(address) => post(address, &body.to_string()).await,
        Recipient::Slack(address) => post(address, &json!({"text": text}).to_string()).await,
        Recipient::Command(words) => run(words, &body.to_string(), hidden).await,
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
async fn run(words: &[String], body: &str, hidden: &[&str]) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let place = format!("the notification to the command {program}");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    for name in hidden {
        command.env_remove(name);
    }
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
    // A redirect could send the message to another host.
    Client::builder().timeout(REQUEST_TIMEOUT).redirect(Policy::none()).build()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let (webhook, target) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        target.set_nonblocking(true).unwrap();
        let (address, location) = (webhook.local_addr().unwrap(), target.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in webhook.incoming().map_while(Result::ok) {
                let count = stream.read(&mut [0; 4096]).unwrap_or(0);
                assert!(count > 0, "the request is empty");
                let head = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nconnection: close\r\n";
                let _ = write!(stream, "{head}location: http://{location}/\r\n\r\n");
            }
        });
        let recipient = Recipient::Webhook(format!("http://{address}/hook"));
        let error = deliver(&recipient, "text", &json!({"text": "text"}), &[]).await.unwrap_err();
        assert!(error.message.contains("the server responded with 307"), "{}", error.message);
        assert!(target.accept().is_err(), "nothing connects to the target of the redirect");
    }

    #[tokio::test]
    async fn commands_do_not_inherit_hidden_variables() {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().join("shown");
        let script = format!("cat > /dev/null; env > {}", shown.display());
        let recipient = Recipient::Command(["sh", "-c", &script].map(String::from).to_vec());
        // Cargo sets this variable for tests.
        deliver(&recipient, "text", &json!({}), &["CARGO_MANIFEST_DIR"]).await.unwrap();
        let text = std::fs::read_to_string(&shown).unwrap();
        assert!(text.contains("PATH=") && !text.contains("CARGO_MANIFEST_DIR="), "{text}");
        deliver(&recipient, "text", &json!({}), &[]).await.unwrap();
        assert!(std::fs::read_to_string(&shown).unwrap().contains("CARGO_MANIFEST_DIR="));
    }
}

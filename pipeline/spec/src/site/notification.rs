//! Reads the key `notifications` of a site file.

use crate::diagnostic::Diagnostic;
use crate::read::{BoundNode, ValueReader};
use serde::Serialize;

/// Events that are notified. The first three are final states of a run.
pub const EVENTS: [&str; 7] = ["succeeded", "failed", "cancelled", "recovered", "gate", "missed", "broken"];

/// Events and their recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notification {
    /// Some of [`EVENTS`].
    pub on: Vec<String>,
    pub to: Recipient,
}

/// Recipient of a notification. Many addresses are secrets, so an address may name a variable that holds it
/// (`env:WEBHOOK`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipient {
    /// `https://…`, `http://…` or `env:…`; receives the full event as JSON.
    Webhook(String),
    /// An address as for a webhook; receives only the line of text, in Slack's format.
    Slack(String),
    /// A program and its arguments; receives the JSON of a webhook on its standard input.
    Command(Vec<String>),
}

/// Reads `{on, webhook}`, `{on, slack}` or `{on, command}`.
pub(super) fn read(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Notification> {
    let fields = reader.map(bound, "a notification", &["on", "webhook", "slack", "command"])?;
    let forms = ["webhook", "slack", "command"];
    let given: Vec<&str> = forms.into_iter().filter(|form| fields.get(form).is_some()).collect();
    let [form] = given.as_slice() else {
        let d = if given.is_empty() {
            Diagnostic::error("missing-key", bound.span, "a notification has no `webhook`")
                .help("add a recipient: `webhook`, `slack` or `command`")
        } else {
            let found = given.join("` and `");
            Diagnostic::error("misplaced-key", bound.span, format!("a notification has both `{found}`"))
                .help("write one notification for each")
        };
        reader.report(d);
        return None;
    };
    let on = match fields.get("on").and_then(|b| reader.list(b, "`on`")) {
        Some(items) => items.iter().filter_map(|b| reader.word(b, "`on`", &EVENTS)).map(str::to_string).collect(),
        None => vec!["failed".to_string()],
    };
    let value = fields.get(form)?;
    let to = match *form {
        "webhook" => Recipient::Webhook(address(value, "`webhook`", reader)?),
        "slack" => Recipient::Slack(address(value, "`slack`", reader)?),
        _ => Recipient::Command(command(value, reader)?),
    };
    Some(Notification { on, to })
}

/// Checks an address; reports an invalid one but returns it.
fn address(bound: &BoundNode, subject: &str, reader: &mut ValueReader<'_>) -> Option<String> {
    let address = reader.string(bound, subject)?;
    let known = ["https://", "http://", "env:"]
        .iter()
        .any(|start| address.strip_prefix(start).is_some_and(|rest| !rest.is_empty()));
    if !known {
        let d = Diagnostic::error("wrong-value", bound.span, format!("{subject} is not an address"));
        reader.report(d.help("write `https://…`, or `env:WEBHOOK` for an address in an environment variable"));
    }
    Some(address)
}

fn command(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Vec<String>> {
    let words = reader.strings(bound, "`command`")?;
    if words.is_empty() {
        let d = Diagnostic::error("wrong-value", bound.span, "`command` names no program");
        reader.report(d.help("write a program and its arguments, as in `[/usr/local/bin/page, oncall]`"));
        return None;
    }
    Some(words)
}

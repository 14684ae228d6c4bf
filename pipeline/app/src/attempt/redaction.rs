//! Redacts the values of an attempt's secrets in its log lines, metrics and errors.
//!
//! A command may print its environment, most often in its last line before it fails. Before a message leaves the
//! attempt, every value of [`MIN_LENGTH`] characters or more is replaced by `[secret NAME]`, in all of its
//! `forms`; so is each such line of a multi-line value. Shorter values would match ordinary words. Output files of a
//! command are not redacted, nor are hashes of values. The secrets are global to the process, so a host redacts the
//! secrets of all its attempts.

use super::secret_forms::forms;
use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};
use trainyard_api::Reporter;
use trainyard_core::Error;
use trainyard_core::attempt::AttemptMessage;
use trainyard_runtime::executors::TEXT_LIMIT;

/// Minimum characters of a redacted value.
pub const MIN_LENGTH: usize = 8;

/// Values with the names of their secrets, longest values first.
static SECRETS: RwLock<Vec<(String, String)>> = RwLock::new(Vec::new());

/// Registers the value of a secret, which is redacted in the whole process from now on.
pub fn keep(name: &str, value: &str) {
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    let values = std::iter::once(value.trim()).chain(value.lines().map(str::trim));
    for form in values.filter(|value| is_long(value)).flat_map(forms).filter(|form| is_long(form)) {
        if secrets.iter().all(|(known, _)| *known != form) {
            secrets.push((form, name.to_string()));
        }
    }
    secrets.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.cmp(b)));
}

fn is_long(text: &str) -> bool {
    text.chars().count() >= MIN_LENGTH
}

/// Redacts the registered values in a text.
pub fn text(text: &str) -> Cow<'_, str> {
    redact(text, &SECRETS.read().unwrap_or_else(PoisonError::into_inner))
}

/// Redacts the message, the help and the causes of an error.
pub fn error(mut error: Error) -> Error {
    error.message = text(&error.message).into_owned();
    error.help = error.help.map(|help| text(&help).into_owned());
    let causes: Vec<String> = error.causes().map(|cause| text(cause).into_owned()).collect();
    error.source = causes.try_into().ok().map(Box::new);
    error
}

/// Reporter that passes redacted messages to another reporter.
pub struct RedactingReporter<R>(pub R);

impl<R: Reporter> Reporter for RedactingReporter<R> {
    fn report(&self, original: AttemptMessage) {
        self.0.report(message(original));
    }
}

/// Redacts the texts of a message.
pub fn message(message: AttemptMessage) -> AttemptMessage {
    match message {
        AttemptMessage::Log { level, text: line } => AttemptMessage::Log { level, text: text(&line).into_owned() },
        AttemptMessage::Error { error: original } => AttemptMessage::Error { error: error(original) },
        AttemptMessage::Metric { name, step, value } => {
            AttemptMessage::Metric { name: text(&name).into_owned(), step, value }
        }
        AttemptMessage::Progress { done, total, unit, metric } => {
            let metric = metric.map(|(name, value)| (text(&name).into_owned(), value));
            AttemptMessage::Progress { done, total, unit: text(&unit).into_owned(), metric }
        }
        AttemptMessage::Checkpoint { .. } | AttemptMessage::Result {} => message,
    }
}

fn redact<'a>(text: &'a str, secrets: &[(String, String)]) -> Cow<'a, str> {
    let mut redacted = Cow::Borrowed(text);
    for (value, name) in secrets {
        if redacted.contains(value.as_str()) {
            redacted = Cow::Owned(redacted.replace(value.as_str(), &mark(name)));
        }
        // A truncated line may end with the beginning of a value.
        if text.len() + 4 > TEXT_LIMIT
            && let Some(length) = beginning(value).find(|length| redacted.ends_with(&value[..*length]))
        {
            redacted = Cow::Owned(format!("{}{}", &redacted[..redacted.len() - length], mark(name)));
        }
    }
    redacted
}

/// Returns the lengths of prefixes of a value that must be redacted, longest first.
fn beginning(value: &str) -> impl Iterator<Item = usize> {
    value.char_indices().map(|(at, _)| at).filter(|at| *at >= MIN_LENGTH).rev()
}

fn mark(name: &str) -> String {
    format!("[secret {name}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use trainyard_core::attempt::LogLevel;

    fn secrets(all: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all: Vec<_> = all.iter().map(|(value, name)| (value.to_string(), name.to_string())).collect();
        all.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        all
    }

    #[test]
    fn values_are_replaced_by_names() {
        let secrets = secrets(&[("hunter2-hunter2", "TOKEN"), ("hunter2-hunter2-more", "LONG")]);
        assert_eq!(redact("no secret", &secrets), "no secret");
        assert_eq!(redact("ahunter2-hunter2bhunter2-hunter2", &secrets), "a[secret TOKEN]b[secret TOKEN]");
        assert_eq!(redact("x hunter2-hunter2-more y", &secrets), "x [secret LONG] y", "the longer one counts");
    }

    #[test]
    fn truncated_values_are_redacted() {
        let secrets = secrets(&[("abcdefghijklmnop", "TOKEN")]);
        let cut = format!("{}abcdefghijkl", "x".repeat(TEXT_LIMIT - 12));
        assert!(redact(&cut, &secrets).ends_with("x[secret TOKEN]"));
        assert_eq!(redact("abcdefghijkl", &secrets), "abcdefghijkl", "a short line was not cut");
    }

    #[test]
    fn escaped_values_are_redacted() {
        keep("PLAN", "it's \"so\" s3cret/wörd\\");
        for shown in [
            r#"{"key": "it's \"so\" s3cret/w\u00f6rd\\"}"#,
            r#"'it\'s "so" s3cret/wörd\\'"#,
            "https://h/?key=it%27s%20%22so%22%20s3cret%2Fw%C3%B6rd%5C&x=1",
            "key=it%27s+%22so%22+s3cret%2Fw%C3%B6rd%5C",
            // Of `user:` and the value.
            "Basic dXNlcjppdCdzICJzbyIgczNjcmV0L3fDtnJkXA==",
        ] {
            let redacted = text(shown);
            assert!(redacted.contains("[secret PLAN]"), "{redacted}");
            assert!(!redacted.contains("s3cret") && !redacted.contains("czNjcmV0"), "{redacted}");
        }
    }

    struct MessageRecorder(Mutex<Vec<AttemptMessage>>);

    impl Reporter for MessageRecorder {
        fn report(&self, message: AttemptMessage) {
            self.0.lock().unwrap().push(message);
        }
    }

    #[test]
    fn all_messages_are_redacted() {
        keep("KEY", "-----BEGIN-----\nline one of it\nshort\n-----END-----\n");
        keep("PIN", "1234567");
        let reporter = RedactingReporter(MessageRecorder(Mutex::default()));
        let line = |text: &str| AttemptMessage::Log { level: LogLevel::Info, text: text.into() };
        reporter.report(line("it says line one of it, short, 1234567"));
        let refused = std::io::Error::other("bad line one of it");
        let failed = Error::data("ends: line one of it").help("ask line one of it").caused_by(&refused);
        reporter.report(AttemptMessage::Error { error: failed });
        reporter.report(AttemptMessage::Metric { name: "line one of it".into(), step: 1, value: 0.5 });
        let progress = |name: &str| AttemptMessage::Progress {
            done: 1,
            total: 2,
            unit: "steps".into(),
            metric: Some((name.into(), 0.5)),
        };
        reporter.report(progress("line one of it"));
        let messages = reporter.0.0.into_inner().unwrap();
        assert_eq!(messages[0], line("it says [secret KEY], short, 1234567"), "short values are ordinary words");
        let AttemptMessage::Error { error } = &messages[1] else { panic!("{messages:?}") };
        assert_eq!(error.to_string(), "ends: [secret KEY]; ask [secret KEY]");
        assert_eq!(error.causes().collect::<Vec<_>>(), ["bad [secret KEY]"]);
        assert_eq!(messages[2], AttemptMessage::Metric { name: "[secret KEY]".into(), step: 1, value: 0.5 });
        assert_eq!(messages[3], progress("[secret KEY]"));
    }
}

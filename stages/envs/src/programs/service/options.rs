//! Defines the options that all roles of a service share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::units::parse_duration;
use trainyard_core::{Error, OptionProblem, Result, Secret, SecretName, Secrets};
use trainyard_http::{BaseUrl, Credentials, RequestLimits};

/// Maximum size of a response in bytes, the same as of a program's line.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Headers that every request sets itself.
const RESERVED_HEADERS: [&str; 6] = ["accept", "authorization", "connection", "content-length", "content-type", "host"];

/// Service and the limits of requests to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceOptions {
    /// URL of the service: `http://127.0.0.1:9000/`. Part of the stage digest, unlike the code that runs there.
    pub url: String,
    /// Key of the service, by its name in the site file: `{secret: NAME}`; sent in the header `Authorization` as a
    /// bearer token. Null = no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretName>,
    /// Further headers of every request: a text, or `{secret: NAME}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, ServiceHeader>,
    /// Maximum number of requests in flight; further requests wait.
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: usize,
    /// Time limit of one attempt of a request: `30s`, `2m`.
    pub timeout: String,
    /// Maximum number of attempts of a request, including the first, while the service is unreachable or overloaded.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: u32,
    /// Passed to the service unchanged. Part of the stage digest, so it may contain a version of the service.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

/// Value of a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum ServiceHeader {
    /// A secret of the site file: `{secret: NAME}`.
    Secret(SecretName),
    /// Plain text, readable by anyone.
    Text(String),
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            url: String::new(),
            api_key: None,
            headers: BTreeMap::new(),
            concurrency: 4,
            timeout: "30s".to_string(),
            attempts: 4,
            options: Value::Null,
        }
    }
}

impl ServiceOptions {
    /// Returns the address of the service. Errors: invalid, if `url` is not a URL.
    pub(super) fn address(&self) -> Result<BaseUrl> {
        BaseUrl::exact(&self.url)
    }
    fn time(&self) -> Result<Duration> {
        let time = parse_duration(&self.timeout).map_err(Error::invalid)?;
        if time.is_zero() {
            return Err(Error::invalid("the time limit of a request is zero").help("write for example `30s`"));
        }
        Ok(time)
    }
    /// Returns the limits of requests. Errors: invalid, if `timeout` is not a duration.
    pub(super) fn limits(&self) -> Result<RequestLimits> {
        let (requests, attempts, timeout) = (self.concurrency, self.attempts, self.time()?);
        Ok(RequestLimits { requests, attempts, timeout, response_bytes: MAX_ANSWER_BYTES })
    }
    /// Returns the credentials. Errors: invalid, for a secret that the stage does not have.
    pub(super) fn credentials(&self, secrets: &Secrets) -> Result<Credentials> {
        let key = self.api_key.as_ref().map(|name| secrets.get(name)).transpose()?.cloned();
        let value = |header: &ServiceHeader| match header {
            ServiceHeader::Secret(name) => secrets.get(name).cloned(),
            ServiceHeader::Text(text) => Ok(Secret::new(text)),
        };
        let headers = self.headers.iter().map(|(name, header)| Ok((name.clone(), value(header)?)));
        Ok(Credentials { key, headers: headers.collect::<Result<_>>()? })
    }
    fn problems_of_headers(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (name, header) in &self.headers {
            let mut wrong = |message: &str, help: &str| {
                problems.push(OptionProblem::new(format!("/headers/{name}"), message).help(help));
            };
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(is_token) {
                wrong("invalid name of a header", "use letters, digits and `-`");
            } else if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                wrong("this header is set by Trainyard", "remove it; set a key with `api_key`");
            }
            if let ServiceHeader::Text(text) = header
                && text.chars().any(char::is_control)
            {
                wrong("the value of a header contains a control character", "write it on one line");
            }
        }
        problems
    }
}

impl ServiceOptions {
    /// Returns all problems; pointers are relative to the options.
    pub(super) fn all_problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.url.is_empty() {
            let problem = OptionProblem::new("/url", "the URL of the service is empty");
            problems.push(problem.help("write for example `url: http://127.0.0.1:9000/`"));
        } else if let Err(e) = self.address() {
            let problem = OptionProblem::new("/url", e.message);
            problems.push(e.help.into_iter().fold(problem, OptionProblem::help));
        }
        problems.extend(self.problems_of_headers());
        problems.extend(OptionProblem::out_of_range("/concurrency", self.concurrency, 1..=1024));
        if let Err(error) = self.time() {
            problems.push(OptionProblem::new("/timeout", error.message));
        }
        problems.extend(OptionProblem::out_of_range("/attempts", self.attempts, 1..=100));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(more: Value) -> ServiceOptions {
        let mut options = json!({"url": "http://127.0.0.1:9/"});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(options).unwrap()
    }

    #[test]
    fn all_problems_are_reported_with_their_pointers() {
        let pointers = |more: Value| -> Vec<String> {
            options(more).all_problems().into_iter().map(|problem| problem.pointer).collect()
        };
        assert!(pointers(json!({})).is_empty());
        assert_eq!(pointers(json!({"url": ""})), ["/url"]);
        assert_eq!(
            pointers(json!({"url": "ftp://h", "concurrency": 0, "timeout": "0s", "attempts": 0})),
            ["/url", "/concurrency", "/timeout", "/attempts"]
        );
        let headers = json!({"Authorization": "x", "X-Team": "a\nb", "a b": "c", "X-Key": {"secret": "KEY"}});
        assert_eq!(
            pointers(json!({"headers": headers})),
            ["/headers/Authorization", "/headers/X-Team", "/headers/a b"]
        );
    }

    #[test]
    fn config_contains_no_secret_values() {
        let options = options(json!({"api_key": {"secret": "A"}, "headers": {"x-key": {"secret": "B"}, "x-t": "c"}}));
        let complete = serde_json::to_value(&options).unwrap();
        assert_eq!(complete["headers"], json!({"x-key": {"secret": "B"}, "x-t": "c"}));
        let known = Secrets::new([("A".to_string(), "1".to_string()), ("B".to_string(), "2".to_string())]);
        let credentials = options.credentials(&known).unwrap();
        assert_eq!(credentials.headers[0].1.reveal(), "2");
        assert!(!format!("{credentials:?}").contains('2'));
        assert!(options.credentials(&Secrets::default()).unwrap_err().message.contains("`A`"));
    }
}

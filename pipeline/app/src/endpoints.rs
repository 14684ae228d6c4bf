//! Finds the models at endpoints that a plan names, and those of them that do not answer.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_http::{BaseUrl, DeliveryStatus, HttpClient, JsonRequest, RequestLimits};
use trainyard_spec::Plan;

/// Maximum bytes of a server's list of models.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// An endpoint that does not answer.
#[derive(Debug, Clone)]
pub struct SilentEndpoint {
    /// Address, as the options name it.
    pub url: String,
    /// Stages whose options name it, sorted.
    pub stages: BTreeSet<String>,
    /// Failure of the request.
    pub error: Error,
}

/// Returns the addresses of models in the options of a plan's stages, each with its stages: `endpoint` of a model, and
/// `url` of the backend `endpoint`. Values that are not known before the run are left out.
pub fn model_endpoints(plan: &Plan) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in &plan.nodes {
        let mut urls = Vec::new();
        collect(&node.config.known_part(), &mut urls);
        for url in urls {
            found.entry(url).or_default().insert(node.key.0.clone());
        }
    }
    found
}

fn collect(options: &Value, urls: &mut Vec<String>) {
    match options {
        Value::Array(items) => items.iter().for_each(|item| collect(item, urls)),
        Value::Object(map) => {
            let is_backend = map.get("kind").is_some_and(|kind| kind == "endpoint");
            let named = if is_backend { map.get("url") } else { map.get("endpoint") };
            urls.extend(named.and_then(Value::as_str).filter(|url| url.contains("://")).map(str::to_string));
            map.values().for_each(|value| collect(value, urls));
        }
        _ => {}
    }
}

/// Asks all endpoints together for their models, and returns those that do not answer within `timeout`. A refusal for
/// lack of a key is an answer.
pub fn silent_endpoints(endpoints: BTreeMap<String, BTreeSet<String>>, timeout: Duration) -> Vec<SilentEndpoint> {
    let ask = |(url, stages): (String, BTreeSet<String>)| {
        let error = answers(&url, timeout).err()?;
        Some(SilentEndpoint { url, stages, error })
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = endpoints.into_iter().map(|endpoint| scope.spawn(move || ask(endpoint))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    })
}

/// Errors: those of the URL, and of a request without a response.
fn answers(url: &str, timeout: Duration) -> Result<()> {
    let limits = RequestLimits { requests: 1, attempts: 1, timeout, response_bytes: MAX_RESPONSE_BYTES };
    let client = HttpClient::open(BaseUrl::read(url)?, None, limits)?;
    match client.request(JsonRequest::get("/v1/models")) {
        Err(fault) if fault.status.is_none() && fault.delivery != DeliveryStatus::MaybeProcessed => Err(fault.error),
        // Any response is an answer, also one that is not a list of models.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn addresses_are_found_in_models_and_backends() {
        let mut urls = Vec::new();
        let options = json!({
            "environment": {"kind": "customer-service", "user": {"endpoint": "http://a:1", "model": "m"}},
            "endpoints": {"teacher": {"model": {"endpoint": "http://b:2"}}},
            "backend": {"kind": "endpoint", "url": "http://c:3"},
            "rules": [{"kind": "judge", "model": {"endpoint": null}}, {"kind": "http", "url": "http://d:4"}],
        });
        collect(&options, &mut urls);
        urls.sort();
        assert_eq!(urls, ["http://a:1", "http://b:2", "http://c:3"]);
    }

    #[test]
    fn only_endpoints_without_any_response_are_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = format!("http://{}/v1", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let dead = format!("http://{}", closed.local_addr().unwrap());
        drop(closed);
        let endpoints = [refusing, dead.clone()].map(|url| (url, BTreeSet::from(["judge".to_string()])));
        let silent = silent_endpoints(endpoints.into(), Duration::from_secs(10));
        assert_eq!(silent.iter().map(|endpoint| endpoint.url.as_str()).collect::<Vec<_>>(), [dead]);
        assert_eq!(silent[0].stages, BTreeSet::from(["judge".to_string()]));
        assert!(served.join().unwrap().starts_with("GET /v1/models "));
    }
}

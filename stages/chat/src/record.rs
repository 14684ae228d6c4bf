//! Requests by their content, and the form in which their answers are kept.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_core::canonical::canonical_json;
use trainyard_core::{Digest, Error, Result};

/// Version of the form.
const FORMAT: u32 = 1;

/// What was asked: everything that an answer may depend on, and nothing else. The key that was sent, and how often or
/// how fast, are not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The address, or the name that stands for it.
    pub service: String,
    /// Below the address.
    pub path: String,
    /// As it is sent.
    pub body: Value,
    /// Tells equal requests apart.
    pub draw: u64,
}

/// A request with its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u32,
    /// What was asked.
    #[serde(flatten)]
    pub request: Request,
    /// As it came.
    pub answer: Value,
}

impl Request {
    /// By which its answer is found.
    pub fn digest(&self) -> Result<Digest> {
        let Self { service, path, body, draw } = self;
        Digest::of_json(&json!({"format": FORMAT, "service": service, "path": path, "body": body, "draw": draw}))
    }
}

impl Record {
    pub fn new(request: Request, answer: Value) -> Self {
        Self { format: FORMAT, request, answer }
    }
    /// The bytes that are kept.
    pub fn write(&self) -> Result<Vec<u8>> {
        canonical_json(self)
    }
    /// Reads them. Errors: data, for anything but a record of this request.
    pub fn read(bytes: &[u8], digest: &Digest) -> Result<Self> {
        let broken = |why: String| {
            Error::data(format!("the kept answer of request {} cannot be used: {why}", digest.short()))
                .help("remove its record from the folder `requests` of the store; it is then asked again")
        };
        let record: Self = serde_json::from_slice(bytes).map_err(|e| broken(e.to_string()))?;
        if record.format != FORMAT {
            return Err(broken(format!("its form is {}, and this version reads {FORMAT}", record.format)));
        }
        match record.request.digest()? == *digest {
            true => Ok(record),
            false => Err(broken("it is that of another request".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let body = json!({"model": "m", "temperature": 0.5, "messages": []});
        Request { service: "http://h".into(), path: "/v1/chat/completions".into(), body, draw: 0 }
    }

    #[test]
    fn all_that_an_answer_depends_on_is_in_the_digest() {
        let digest = request().digest().unwrap();
        let others = [
            Request { service: "http://g".into(), ..request() },
            Request { path: "/v1/completions".into(), ..request() },
            Request { body: json!({"model": "n", "temperature": 0.5, "messages": []}), ..request() },
            Request { draw: 1, ..request() },
        ];
        assert!(others.iter().all(|other| other.digest().unwrap() != digest));
        let respelled = serde_json::from_str(r#"{"messages": [], "temperature": 5e-1, "model": "m"}"#).unwrap();
        assert_eq!(Request { body: respelled, ..request() }.digest().unwrap(), digest);
    }

    #[test]
    fn a_record_comes_back_or_is_refused() {
        let digest = request().digest().unwrap();
        let record = Record::new(request(), json!({"choices": []}));
        let bytes = record.write().unwrap();
        assert_eq!(Record::read(&bytes, &digest).unwrap(), record);
        let other = Digest::of(b"other");
        assert!(Record::read(&bytes, &other).unwrap_err().message.contains("another request"));
        assert!(Record::read(&bytes[..20], &digest).unwrap_err().help.unwrap().contains("remove"));
    }
}

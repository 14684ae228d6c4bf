//! Defines the digest of a request's content and the stored form of its response.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_core::canonical::canonical_json;
use trainyard_core::{Digest, Error, Result};

/// Version of the stored form.
const FORMAT: u32 = 1;

/// Content of a request: everything that a response may depend on, and no more. The key, the number of attempts and the
/// rate are excluded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatRequestKey {
    /// Address of the service, or the option `service` in its place.
    pub service: String,
    /// Path below the address.
    pub path: String,
    /// Body as it is sent.
    pub body: Value,
    /// Distinguishes equal requests.
    pub draw: u64,
}

/// A request with its response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatRecord {
    format: u32,
    #[serde(flatten)]
    pub request: ChatRequestKey,
    /// Response, unchanged.
    pub answer: Value,
}

impl ChatRequestKey {
    /// Returns the key of the stored response.
    pub fn digest(&self) -> Result<Digest> {
        let Self { service, path, body, draw } = self;
        Digest::of_json(&json!({"format": FORMAT, "service": service, "path": path, "body": body, "draw": draw}))
    }
}

impl ChatRecord {
    pub fn new(request: ChatRequestKey, answer: Value) -> Self {
        Self { format: FORMAT, request, answer }
    }
    /// Returns the bytes to store.
    pub fn write(&self) -> Result<Vec<u8>> {
        canonical_json(self)
    }
    /// Reads the bytes. Errors: data, for any other content than a record of this request.
    pub fn read(bytes: &[u8], digest: &Digest) -> Result<Self> {
        let invalid = |reason: String| {
            Error::data(format!("the stored response to request {} cannot be used: {reason}", digest.short()))
                .help("remove its record from the folder `requests` of the store; the request is then sent again")
        };
        let record: Self = serde_json::from_slice(bytes).map_err(|e| invalid(e.to_string()))?;
        if record.format != FORMAT {
            return Err(invalid(format!("its format is {}, but this version reads format {FORMAT}", record.format)));
        }
        match record.request.digest()? == *digest {
            true => Ok(record),
            false => Err(invalid("it belongs to another request".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ChatRequestKey {
        let body = json!({"model": "m", "temperature": 0.5, "messages": []});
        ChatRequestKey { service: "http://h".into(), path: "/v1/chat/completions".into(), body, draw: 0 }
    }

    #[test]
    fn digest_covers_all_fields() {
        let digest = request().digest().unwrap();
        let others = [
            ChatRequestKey { service: "http://g".into(), ..request() },
            ChatRequestKey { path: "/v1/completions".into(), ..request() },
            ChatRequestKey { body: json!({"model": "n", "temperature": 0.5, "messages": []}), ..request() },
            ChatRequestKey { draw: 1, ..request() },
        ];
        assert!(others.iter().all(|other| other.digest().unwrap() != digest));
        let respelled = serde_json::from_str(r#"{"messages": [], "temperature": 5e-1, "model": "m"}"#).unwrap();
        assert_eq!(ChatRequestKey { body: respelled, ..request() }.digest().unwrap(), digest);
    }

    #[test]
    fn record_is_read_back_and_checked() {
        let digest = request().digest().unwrap();
        let record = ChatRecord::new(request(), json!({"choices": []}));
        let bytes = record.write().unwrap();
        assert_eq!(ChatRecord::read(&bytes, &digest).unwrap(), record);
        let other = Digest::of(b"other");
        assert!(ChatRecord::read(&bytes, &other).unwrap_err().message.contains("another request"));
        assert!(ChatRecord::read(&bytes[..20], &digest).unwrap_err().help.unwrap().contains("remove"));
    }
}

//! Tests the crate against a loopback server that responds to its three requests as the hub does. No test sends a
//! request to another machine.

use super::*;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use trainyard_core::ErrorKind;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A stand-in for the hub on this machine: responds by path, and records requests with their tokens.
struct Loopback {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Loopback {
    fn serve(responses: &[(&str, u16, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let responses: BTreeMap<String, (u16, String)> =
            responses.iter().map(|(path, status, body)| (path.to_string(), (*status, body.to_string()))).collect();
        let log = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let Some(first) = lines.next() else { continue };
                let path = first.split([' ', '?']).nth(1).unwrap_or("").to_string();
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let token =
                    head.iter().find_map(|line| line.to_lowercase().strip_prefix("authorization: ").map(String::from));
                log.lock().unwrap().push(format!("{path} {}", token.unwrap_or_default()).trim().to_string());
                let (status, body) = responses.get(&path).cloned().unwrap_or((404, String::new()));
                let location = match status {
                    302 => format!("location: {body}\r\n"),
                    _ => format!("etag: \"{}\"\r\n", responses.get("etag").map_or("", |(_, etag)| etag.as_str())),
                };
                let _ = write!(
                    &stream,
                    "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{location}connection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { endpoint, requests }
    }
    fn hub(&self, cache: &Path) -> Hub {
        Hub::new(settings(&self.endpoint, cache, false))
    }
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn settings(endpoint: &str, cache: &Path, offline: bool) -> HubSettings {
    HubSettings { endpoint: endpoint.into(), token: None, cache: cache.into(), offline }
}

fn named(name: &str) -> HubFile {
    HubFile::named(name.to_string())
}

fn location(text: &str) -> HubLocation {
    HubLocation::read(text).unwrap()
}

#[test]
fn locations_have_a_revision_and_a_path() {
    let read = |text: &str| {
        let HubLocation { repository, revision, path, .. } = location(text);
        [repository, revision, path]
    };
    assert_eq!(read("hf://datasets/openai/gsm8k"), ["openai/gsm8k", "main", ""]);
    assert_eq!(read("hf://datasets/a/b@v1.0/data/*.parquet"), ["a/b", "v1.0", "data/*.parquet"]);
    assert_eq!(read("hf://datasets/a/b@refs/convert/parquet/x/y"), ["a/b", "refs/convert/parquet", "x/y"]);
    assert_eq!(location("hf://datasets/a/b/c.json").to_string(), "hf://datasets/a/b@main/c.json");
    for wrong in [
        "hf://a",
        "hf://datasets/a",
        "hf://datasets/a/",
        "hf://datasets/../b",
        "hf://datasets/a/b/../c",
        "hf://datasets/a/b@",
    ] {
        assert_eq!(HubLocation::read(wrong).unwrap_err().kind, ErrorKind::Invalid, "{wrong}");
    }
}

#[test]
fn variables_name_the_hub_and_the_cache() {
    let read = |set: &[(&str, &str)]| {
        let set: BTreeMap<&str, &str> = set.iter().copied().collect();
        HubSettings::read(|name| set.get(name).map(ToString::to_string))
    };
    let usual = read(&[("HOME", "/h")]);
    assert_eq!(usual.cache.to_str(), Some("/h/.cache/huggingface/hub"));
    assert!(usual.endpoint == "https://huggingface.co" && !usual.offline && usual.token.is_none());
    let own = read(&[("HF_HOME", "/x"), ("HF_ENDPOINT", "http://m/"), ("HF_HUB_OFFLINE", "1"), ("HF_TOKEN", "t")]);
    assert_eq!((own.cache.to_str(), own.endpoint.as_str(), own.offline), (Some("/x/hub"), "http://m", true));
    assert_eq!(read(&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/x"), ("HF_HUB_OFFLINE", "0")]).cache.to_str(), Some("/c"));
}

#[test]
fn a_revision_is_pinned_and_its_files_are_fetched_once() {
    let revision =
        format!(r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "data/b.jsonl"}}, {{"rfilename": "a.txt"}}]}}"#);
    let file = format!("/datasets/o/n/resolve/{COMMIT}/data/b.jsonl");
    let server = Loopback::serve(&[
        ("/api/datasets/o/n/revision/main", 200, &revision),
        (&format!("/api/datasets/o/n/revision/{COMMIT}"), 200, &revision),
        (&file, 302, "/elsewhere/b"),
        ("/elsewhere/b", 200, "rows"),
    ]);
    let cache = tempfile::tempdir().unwrap();
    let hub = server.hub(cache.path());
    let pinned = hub.pin(&location("hf://datasets/o/n/data")).unwrap();
    assert_eq!(pinned.to_string(), format!("hf://datasets/o/n@{COMMIT}/data"));
    let names: Vec<String> = hub.files(&pinned).unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["a.txt", "data/b.jsonl"]);
    let path = hub.fetch(&pinned, &named("data/b.jsonl")).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "rows");
    assert!(path.ends_with(format!("datasets--o--n/snapshots/{COMMIT}/data/b.jsonl")));
    let before = server.requests().len();
    assert_eq!(hub.pin(&pinned).unwrap(), pinned);
    assert_eq!(hub.fetch(&pinned, &named("data/b.jsonl")).unwrap(), path);
    assert_eq!(server.requests().len(), before, "a commit and a fetched file are not requested again");
    // Cached files are available without the hub.
    let offline = Hub::new(settings("http://127.0.0.1:1", cache.path(), true));
    assert_eq!(offline.pin(&location("hf://datasets/o/n/data")).unwrap(), pinned);
    assert_eq!(offline.files(&pinned).unwrap(), [named("data/b.jsonl")]);
    assert_eq!(offline.fetch(&pinned, &named("data/b.jsonl")).unwrap(), path);
    for error in [
        offline.fetch(&pinned, &named("a.txt")).unwrap_err(),
        offline.pin(&location("hf://datasets/o/n@v2")).unwrap_err(),
    ] {
        assert!(error.message.contains("HF_HUB_OFFLINE is set") && error.help.is_some(), "{error}");
    }
    assert!(hub.fetch(&pinned, &named("../x")).unwrap_err().message.contains("unsafe name"));
}

#[test]
fn token_is_sent_and_denials_have_help() {
    let server = Loopback::serve(&[
        ("/api/datasets/o/gated/revision/main", 403, ""),
        ("/api/datasets/o/busy/revision/main", 503, ""),
        ("/api/datasets/o/odd/revision/refs%2Fpr%2F1", 200, r#"{"sha": "x"}"#),
    ]);
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::new(HubSettings { token: Some("secret".into()), ..settings(&server.endpoint, cache.path(), false) });
    let error = |text: &str| hub.pin(&location(text)).unwrap_err();
    let gated = error("hf://datasets/o/gated");
    assert!(gated.kind == ErrorKind::Invalid && gated.help.as_ref().unwrap().contains("HF_TOKEN"), "{gated}");
    assert!(error("hf://datasets/o/none").message.contains("no such data set"));
    assert_eq!(error("hf://datasets/o/busy").kind, ErrorKind::Retryable);
    assert!(error("hf://datasets/o/odd@refs/pr/1").message.contains("instead of a commit"));
    assert!(server.requests().iter().all(|line| line.ends_with("bearer secret")), "{:?}", server.requests());
    let unreachable = Hub::new(settings("http://127.0.0.1:1", cache.path(), false));
    let error = unreachable.pin(&location("hf://datasets/o/n")).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.help.unwrap().contains("HF_HUB_OFFLINE"));
}

/// A commit of a model, with the SHA-256 that the hub lists for its weights.
fn model_server(sha256: &str) -> Loopback {
    let revision = format!(
        r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "pytorch_model.bin"}}, {{"rfilename": "config.json",
        "size": 2}}, {{"rfilename": "m.gguf"}}, {{"rfilename": "model.safetensors", "size": 4, "lfs": {{"sha256":
        "{sha256}"}}}}, {{"rfilename": "onnx/model.safetensors"}}, {{"rfilename": "tokenizer.json", "size": 2}}]}}"#
    );
    let file = |name: &str| format!("/o/n/resolve/{COMMIT}/{name}");
    Loopback::serve(&[
        ("/api/models/o/n/revision/main", 200, &revision),
        (&format!("/api/models/o/n/revision/{COMMIT}"), 200, &revision),
        (&file("config.json"), 200, "{}"),
        (&file("tokenizer.json"), 200, "{}"),
        (&file("model.safetensors"), 200, "bits"),
        (&file("m.gguf"), 200, "GGUF"),
    ])
}

#[test]
fn a_model_is_its_folder_without_other_formats_or_one_named_file() {
    let server = model_server(trainyard_core::Digest::of(b"bits").as_str());
    let cache = tempfile::tempdir().unwrap();
    let hub = server.hub(cache.path());
    let pinned = hub.pin(&location("hf://o/n")).unwrap();
    assert_eq!(pinned.to_string(), format!("hf://o/n@{COMMIT}"));
    let before_weights = |folder: &Path| {
        assert!(folder.join("tokenizer.json").is_file() && !folder.join("model.safetensors").exists());
        Ok(())
    };
    let folder = fetch_model(&hub, &pinned, before_weights, || Ok(())).unwrap();
    assert!(folder.ends_with(format!("models--o--n/snapshots/{COMMIT}")));
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors", "tokenizer.json"]);
    let offline = Hub::new(settings("http://127.0.0.1:1", cache.path(), true));
    assert_eq!(fetch_model(&offline, &location("hf://o/n"), |_| Ok(()), || Ok(())).unwrap(), folder);
    let one = fetch_model(&hub, &location("hf://o/n/m.gguf"), |_| Ok(()), || Ok(())).unwrap();
    assert_eq!(std::fs::read_to_string(one).unwrap(), "GGUF");
    let error = fetch_model(&hub, &location("hf://o/n/x.gguf"), |_| Ok(()), || Ok(())).unwrap_err();
    assert!(error.message.contains("no such file"), "{error}");
}

#[test]
fn damaged_weights_and_refused_models_are_not_stored() {
    let server = model_server(&"0".repeat(64));
    let cache = tempfile::tempdir().unwrap();
    let hub = server.hub(cache.path());
    let weights = cache.path().join(format!("models--o--n/snapshots/{COMMIT}/model.safetensors"));
    let error = fetch_model(&hub, &location("hf://o/n"), |_| Ok(()), || Ok(())).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("SHA-256"), "{error}");
    assert!(!weights.exists());
    let refuse = |_: &Path| Err(Error::invalid("unknown family"));
    let error = fetch_model(&hub, &location("hf://o/n"), refuse, || Ok(())).unwrap_err();
    assert_eq!(error.message, "unknown family");
    let gone = fetch_model(&hub, &location("hf://o/none"), |_| Ok(()), || Ok(())).unwrap_err();
    assert!(gone.message.contains("no such model"), "{gone}");
}

#[test]
fn downloads_of_another_size_or_etag_are_not_stored() {
    let listed = |etag: &str, size: u64, body: &str| {
        let revision = format!(
            r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "a.txt", "size": {size}, "blobId": "{COMMIT}"}}]}}"#
        );
        let server = Loopback::serve(&[
            (&format!("/api/datasets/o/n/revision/{COMMIT}"), 200, &revision),
            (&format!("/datasets/o/n/resolve/{COMMIT}/a.txt"), 200, body),
            ("etag", 200, etag),
        ]);
        let cache = tempfile::tempdir().unwrap();
        let hub = server.hub(cache.path());
        let pinned = location(&format!("hf://datasets/o/n@{COMMIT}"));
        let file = hub.files(&pinned).unwrap().remove(0);
        let fetched = hub.fetch(&pinned, &file);
        let stored = cache.path().join(format!("datasets--o--n/snapshots/{COMMIT}/a.txt")).exists();
        assert_eq!(stored, fetched.is_ok());
        fetched.map(|_| ()).map_err(|error| error.message)
    };
    listed(COMMIT, 4, "rows").unwrap();
    listed("5d41402abc4b2a76b9719d911017c592-3", 4, "rows").expect("the ETag of a cache in between");
    assert!(listed(COMMIT, 5, "rows").unwrap_err().contains("4 bytes came of 5"));
    assert!(listed(COMMIT, 3, "rows").unwrap_err().contains("more than the 3 listed bytes"));
    let other = "f".repeat(40);
    assert!(listed(&other, 4, "rows").unwrap_err().contains(&format!("the ETag of the download is {other}")));
}

//! Sends the requests to the hub: for the commit of a revision, the files of a commit, and the content of a file.

use crate::HubSettings;
use crate::location::{HubLocation, RepositoryKind, is_commit};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;
use trainyard_core::digest::Hasher;
use trainyard_core::{Digest, Error, Result};

/// Maximum bytes of a list of files.
const LISTING_LIMIT: usize = 64 << 20;
/// Read timeout.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the hub.
pub struct HubClient {
    http: reqwest::Client,
    endpoint: Url,
    token: Option<String>,
}

/// Relevant part of the response about a revision.
#[derive(Deserialize)]
struct RevisionInfo {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: Option<u64>,
    /// SHA-1 of the content as git stores it.
    #[serde(default, rename = "blobId")]
    blob: Option<String>,
    #[serde(default)]
    lfs: Option<LargeFile>,
}

/// Entry of a file whose content is stored outside of the repository: weights and most tables.
#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
}

/// A file of a commit, as the hub lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// Path in the repository.
    pub name: String,
    /// Size in bytes; `None` if the hub does not list it.
    pub size: Option<u64>,
    /// SHA-256 of a large file; `None` of others, whose hash on the hub is another.
    pub sha256: Option<String>,
    /// Id of the content in git, which is the ETag of a file that is not large.
    pub blob: Option<String>,
}

impl HubFile {
    /// Returns a file of which only the name is known.
    pub fn named(name: String) -> Self {
        Self { name, size: None, sha256: None, blob: None }
    }
    /// Checks the ETag of a response, if it is a hash of the hub; caches in between have others. Errors: retryable, if
    /// it differs from the listed hash.
    fn check_etag(&self, place: &str, etag: &str) -> Result<()> {
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        let is_hash = etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        let listed = match etag.len() {
            40 if is_hash && self.sha256.is_none() => self.blob.as_deref(),
            64 if is_hash => self.sha256.as_deref(),
            _ => None,
        };
        match listed.filter(|listed| !listed.eq_ignore_ascii_case(etag)) {
            None => Ok(()),
            Some(listed) => Err(Error::retryable(format!(
                "{place}: the ETag of the download is {etag}, the hub lists {}",
                listed.escape_debug()
            ))),
        }
    }
    /// Checks downloaded content. Errors: retryable, if size or SHA-256 differ from the listed ones.
    pub fn check(&self, place: &dyn std::fmt::Display, size: u64, digest: &Digest) -> Result<()> {
        let name = &self.name;
        if let Some(listed) = self.size.filter(|listed| *listed != size) {
            return Err(Error::retryable(format!("{name} of {place}: {size} bytes came of {listed}")));
        }
        match &self.sha256 {
            Some(listed) if listed != digest.as_str() => Err(Error::retryable(format!(
                "{name} of {place}: the SHA-256 of the download is {digest}, the hub lists {}",
                listed.escape_debug()
            ))),
            _ => Ok(()),
        }
    }
}

impl HubClient {
    pub fn new(settings: &HubSettings) -> Result<Self> {
        // Another part of the program may have installed a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let endpoint = Url::parse(&settings.endpoint)
            .map_err(|e| Error::invalid(format!("HF_ENDPOINT is `{}`: {e}", settings.endpoint)))?;
        let http = reqwest::Client::builder().connect_timeout(READ_TIMEOUT).read_timeout(READ_TIMEOUT).build();
        let http = http.map_err(|e| Error::bug(format!("cannot create a client for {endpoint}: {e}")))?;
        Ok(Self { http, endpoint, token: settings.token.clone() })
    }
    /// Returns the commit of a revision.
    pub async fn commit(&self, location: &HubLocation) -> Result<String> {
        let commit = self.revision(location).await?.sha;
        if is_commit(&commit) {
            return Ok(commit);
        }
        Err(Error::data(format!("{location}: the hub returned `{}` instead of a commit", commit.escape_debug())))
    }
    /// Returns all files of a commit.
    pub async fn files(&self, location: &HubLocation) -> Result<Vec<HubFile>> {
        let file = |file: Sibling| HubFile {
            name: file.rfilename,
            size: file.size,
            sha256: file.lfs.map(|large| large.sha256),
            blob: file.blob,
        };
        Ok(self.revision(location).await?.siblings.into_iter().map(file).collect())
    }
    /// Writes a file of a commit to `target`, up to its listed size. Returns its SHA-256.
    pub async fn download(&self, location: &HubLocation, file: &HubFile, target: &mut File) -> Result<Digest> {
        let name = file.name.as_str();
        let place = format!("{name} of {location}");
        let mut path = match location.kind {
            RepositoryKind::Dataset => vec!["datasets"],
            RepositoryKind::Model => Vec::new(),
        };
        path.extend(location.repository.split('/'));
        path.extend(["resolve", location.revision.as_str()]);
        path.extend(name.split('/'));
        let mut response = self.get(&path, location.kind, &place).await?;
        if let Some(etag) = response.headers().get("etag").and_then(|etag| etag.to_str().ok()) {
            file.check_etag(&place, etag)?;
        }
        let (mut hasher, mut size) = (Hasher::new(), 0_u64);
        while let Some(bytes) = response.chunk().await.map_err(|e| self.unreachable_error(&place, &e))? {
            size += bytes.len() as u64;
            if let Some(listed) = file.size.filter(|listed| size > *listed) {
                return Err(Error::retryable(format!("{place}: more than the {listed} listed bytes came")));
            }
            hasher.update(&bytes);
            target.write_all(&bytes).map_err(|e| Error::retryable(format!("{place} cannot be written: {e}")))?;
        }
        Ok(hasher.finish())
    }

    async fn revision(&self, location: &HubLocation) -> Result<RevisionInfo> {
        let mut path = vec!["api", location.kind.plural()];
        path.extend(location.repository.split('/'));
        path.extend(["revision", location.revision.as_str()]);
        let place = location.to_string();
        let mut response = self.get(&path, location.kind, &place).await?;
        let mut text = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|e| self.unreachable_error(&place, &e))? {
            text.extend_from_slice(&bytes);
            if text.len() > LISTING_LIMIT {
                let limit = LISTING_LIMIT >> 20;
                return Err(Error::data(format!("{place}: the hub's list of files has more than {limit} MiB")));
            }
        }
        serde_json::from_slice(&text)
            .map_err(|e| Error::data(format!("{place}: the hub's response cannot be parsed: {e}")))
    }

    async fn get(&self, path: &[&str], kind: RepositoryKind, place: &str) -> Result<Response> {
        let mut url = self.endpoint.clone();
        // `extend` escapes a slash within a part, as in `refs/convert/parquet`.
        url.path_segments_mut()
            .map_err(|()| Error::invalid(format!("HF_ENDPOINT is `{}`, which has no paths", self.endpoint)))?
            .pop_if_empty()
            .extend(path);
        if path.first() == Some(&"api") {
            url.set_query(Some("blobs=true"));
        }
        let mut request = self.http.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|e| self.unreachable_error(place, &e))?;
        let noun = kind.noun();
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Error::invalid(format!("{place}: no access"))
                .help(format!(
                    "check the spelling; of a gated {noun}, accept the terms on its page; set HF_TOKEN to a token that \
                     may read it"
                ))),
            StatusCode::NOT_FOUND => {
                Err(Error::invalid(format!("{place}: the hub has no such {noun}, revision or file"))
                    .help(format!("check the spelling; a private {noun} needs HF_TOKEN")))
            }
            status => Err(Error::retryable(format!("{place}: the hub returned {status}"))),
        }
    }

    fn unreachable_error(&self, place: &str, error: &reqwest::Error) -> Error {
        Error::retryable(format!("{place}: {} cannot be reached", self.endpoint))
            .help("check the network and HF_ENDPOINT; with HF_HUB_OFFLINE=1 only cached files are used")
            .caused_by(error)
    }
}

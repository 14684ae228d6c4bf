//! Parses the address of a service.

use reqwest::Url;
use std::fmt;
use trainyard_core::{Error, Result};

/// Base of a service's paths: `http://gpu-7:8000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Parses an absolute URL. A last segment `/v1`, which OpenAI's clients require, is removed: requests name their
    /// full path.
    ///
    /// Errors: invalid, for another scheme, a query, or credentials, which error messages would reveal.
    pub fn read(text: &str) -> Result<Self> {
        let Self(mut url) = Self::exact(text)?;
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_string();
        url.set_path(&path);
        Ok(Self(url))
    }
    /// Parses the URL of a service with a single path, which is kept unchanged. Errors: as [`BaseUrl::read`].
    pub fn exact(text: &str) -> Result<Self> {
        let invalid = |message: String| Error::invalid(message).help("write a URL such as `http://127.0.0.1:8000`");
        let url = Url::parse(text).map_err(|e| invalid(format!("`{text}` is not a URL: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::invalid("the URL contains a user name or a password")
                .help("remove them, and pass a key as `api_key: {secret: NAME}`"));
        }
        if !["http", "https"].contains(&url.scheme()) || url.host().is_none() {
            return Err(invalid(format!("`{text}` is not an http or https URL")));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid(format!("`{text}` has a query or a fragment")));
        }
        Ok(Self(url))
    }
    /// Returns the URL.
    pub(crate) fn url(&self) -> Url {
        self.0.clone()
    }
    /// Returns the URL of `path`, which begins with a slash, below the address.
    pub(crate) fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

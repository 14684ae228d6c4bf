//! Defines the schemes of stores in buckets. Each scheme has one file here and one entry in [`crate::registry`].

pub(crate) mod az;
mod client;
pub(crate) mod gs;
pub(crate) mod s3;

pub use client::install_tls;

use object_store::ObjectStore;
use std::fmt;
use std::sync::Arc;
use trainyard_core::Result;

/// A kind of bucket.
pub(crate) struct Scheme {
    /// Scheme, before `://`.
    pub name: &'static str,
    /// Alternative spellings of other programs; only named in help.
    pub aliases: &'static [&'static str],
    /// Term for the part after `://`: `bucket` or `container`.
    pub place: &'static str,
    /// Cloud provider, named in the error of missing credentials.
    pub cloud: &'static str,
    /// Help for missing credentials.
    pub sign_in: &'static str,
    /// Environment variables that contain credentials, of those that its client reads.
    pub credentials: &'static [&'static str],
    /// Connects to the bucket of this name, configured by the environment alone. Errors: invalid (the environment is
    /// incomplete or invalid).
    pub connect: fn(&str) -> Result<Arc<dyn ObjectStore>>,
}

impl Scheme {
    /// Returns an example URL.
    pub fn example(&self) -> String {
        format!("{}://{}/prefix", self.name, self.place)
    }
}

/// Names are unique.
impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.name)
    }
}

//! Stores in buckets by the scheme of their URL: one file each, and one line each in [`crate::registry`].

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
    /// What stands in front of `://`.
    pub name: &'static str,
    /// What others write there; it is only named in help.
    pub aliases: &'static [&'static str],
    /// What stands behind it: `bucket` or `container`.
    pub place: &'static str,
    /// Whose credentials are missing, if none are found.
    pub cloud: &'static str,
    /// What to do about that.
    pub sign_in: &'static str,
    /// The environment variables that give access, of those that its client reads.
    pub credentials: &'static [&'static str],
    /// A connection to the bucket of this name, configured by the environment alone. Errors: invalid (the environment
    /// lacks something, or is wrong).
    pub connect: fn(&str) -> Result<Arc<dyn ObjectStore>>,
}

impl Scheme {
    /// How to write a URL.
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

//! What follows when an object's bytes are not those of its name, or not there.
//!
//! Why so: a lookup asks for names and sizes only, else a hit would cost the reading of everything. So whoever reads an object and
//! finds it damaged removes it: the next lookup finds it missing, and the stage that made it runs again. Such bytes stand for no
//! artifact, so nothing is lost with them; where the removal fails, `--rerun` stores the object anew over them. Refuses: removing
//! from a store that was opened read-only, and removing an object that was only damaged in transit.

use crate::layout;
use crate::store::Store;
use trainyard_core::{Digest, Error, Result};

impl Store {
    /// The error of a reader that met other bytes than an object's name says; the object is removed if that is how it stands in
    /// the store. Data, or retryable if it stands there whole.
    pub(crate) async fn damaged(&self, digest: &Digest) -> Error {
        let place = format!("{}/{}", self.url(), layout::object(digest));
        let error = Error::data(format!("{place} is damaged: its bytes do not have the digest in its name"));
        let removed = if self.options().read_only { None } else { self.discard_corrupt(digest).await.ok() };
        match removed {
            Some(true) => error.help("it was removed; run the workflow again: the stage that made it runs again"),
            Some(false) => Error::retryable(format!("{place} did not arrive whole")).help("run the same command again"),
            None => error.help("the stage that made it must run again: `trainyard run --rerun <stage>`"),
        }
    }
    /// Removes an object whose bytes have another digest; returns whether it did. One that somebody else stored anew in between
    /// goes with it, which costs another run of its stage.
    pub(crate) async fn discard_corrupt(&self, digest: &Digest) -> Result<bool> {
        match self.object_digest(digest).await? {
            Some((found, _)) if found != *digest => self.delete(&layout::object(digest)).await.map(|()| true),
            _ => Ok(false),
        }
    }
}

/// The error of an object that is not there. `path` is that in the store.
pub(crate) fn missing(url: &str, path: &str) -> Error {
    Error::lost(format!("{url}/{path} is missing or has another size"))
        .help("run the workflow again: the stage that made it runs again")
}

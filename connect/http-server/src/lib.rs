//! Runs an HTTP/1 server around a router: it binds, admits requests, limits connections and bodies, and shuts down.
//!
//! ```text
//! bind ─▶ serve: accept ─▶ connection ─▶ router of the caller: admit, read_body or an extractor ─▶ handler
//!                   └─ too many ─▶ 503
//! ```
//!
//! Callers differ in their credentials, in the wording of errors and in the format of error responses. A
//! [`RequestPolicy`] holds credentials and wording, and the caller converts [`RequestDenial`] and [`BodyError`] to
//! responses.

mod admission;
mod bind;
mod body;
mod connection;
mod descriptors;
mod limits;
mod policy;
mod serve;
#[cfg(test)]
mod tests;
mod token;

pub use admission::{RequestDenial, admit, credential};
pub use bind::bind;
pub use body::{BodyError, is_stalled, read_body};
pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub use limits::ServerLimits;
pub use policy::RequestPolicy;
pub use serve::serve;
pub use token::{TokenFile, random_seed, random_token, same_digest, same_token};

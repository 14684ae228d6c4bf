//! An HTTP/1 server around a router: binding, admission of requests, bounds on connections and bodies, shutdown.
//!
//! ```text
//! bind ─▶ serve: accept ─▶ connection ─▶ router of the user: admit, read_body or an extractor ─▶ handler
//!                   └─ too many ─▶ 503
//! ```
//!
//! Users differ in their credentials, in the wording of errors and in the format of error responses: [`Policy`] holds
//! the choices, and [`Denial`] and [`BodyFault`] are translated by the user.

mod admission;
mod bind;
mod body;
mod connection;
mod limits;
mod policy;
mod serve;
#[cfg(test)]
mod tests;

pub use admission::{RequestDenial, admit, credential, same_digest};
pub use bind::bind;
pub use body::{BodyError, is_stalled, read_body};
pub use limits::ServerLimits;
pub use policy::RequestPolicy;
pub use serve::serve;

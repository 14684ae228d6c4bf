//! A service of the user: the lines that a program reads and writes, each a request of its own (`docs/own-code.md`).
//!
//! A service may be asked by many stages at a time and may be started again at any moment, so every request says whom
//! it is for, sessions have names that nobody else uses, and a session that is not known any more is begun again.

mod greeting;
mod options;
mod peer;
#[cfg(test)]
mod tests;

pub use options::{Header, ServiceOptions};
pub use peer::Service;

//! Serves the APIs over HTTP: it routes and admits requests, limits their bodies, and sends complete or streamed
//! responses.

mod conversations;
mod guard;
mod handle;
mod listener;
mod respond;
mod route;
mod settings;
mod state;
#[cfg(test)]
mod tests;

pub use listener::{ModelApiServer, bind, serve};
pub use settings::ModelApiSettings;

//! The server: routes, admission, bounded bodies, responses whole or as events.

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

//! The server: routes, admission, bounded bodies, responses whole or as events.

mod answer;
mod app;
mod guard;
mod handle;
mod kept;
mod route;
mod running;
mod settings;
#[cfg(test)]
mod tests;

pub use running::{Running, bind, serve};
pub use settings::Settings;

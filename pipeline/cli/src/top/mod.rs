//! Shows runs on the full screen. `state` and `draw` are functions over a snapshot of the store; `reader` makes the
//! snapshots in a thread, and `terminal` connects both with keyboard and screen.

mod draw;
mod model;
pub mod reader;
#[cfg(test)]
mod samples;
pub mod state;
#[cfg(test)]
mod state_tests;
pub mod terminal;
mod tree;

pub use draw::Theme;
pub use model::ReadRequest;

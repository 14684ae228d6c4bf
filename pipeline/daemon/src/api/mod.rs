//! Serves the HTTP API under `/api/v1`: runs, artifacts and schedules as JSON.
//!
//! The server and its OpenAPI document are built from one list of routes (`routes`), so they always agree. The API
//! gives programs access to the store, and makes no decisions. It accepts no cookies, so that no form of another site
//! can use it.

mod artifacts;
mod error;
mod guard;
mod index;
mod openapi;
mod route;
mod routes;
mod runs;
mod schedules;
mod server;
mod state;
mod status;
#[cfg(test)]
mod tests;
pub mod tokens;

pub use runs::request_cancel;
pub use server::{bind, router, serve};
pub use state::ApiState;

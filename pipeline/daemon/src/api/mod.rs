//! The HTTP API under `/api/v1`: runs, artifacts and schedules as JSON.
//!
//! One list of routes (`routes`) makes both the server and its OpenAPI document, so the two always agree. Browser pages
//! and programs access the store through it; it makes no decisions.

mod artifacts;
mod curves;
mod error;
mod guard;
mod lineage;
mod logs;
mod openapi;
mod route;
mod routes;
mod runs;
mod schedules;
mod server;
mod state;
mod status;
mod stream_page;
#[cfg(test)]
mod tests;
pub mod tokens;

pub use server::{bind, router, serve};
pub use state::ApiState;

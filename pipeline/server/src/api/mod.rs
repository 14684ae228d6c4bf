//! The HTTP API under `/api/v1`: runs, artifacts and schedules as JSON.
//!
//! One list of routes (`routes`) makes both the server and its OpenAPI document, so neither knows a path that the other
//! lacks. The pages of a browser, and programs, see the store through it; it decides nothing by itself.

mod app;
mod artifacts;
mod curves;
mod error;
mod guard;
mod lineage;
mod logs;
mod openapi;
mod pieces;
mod route;
mod routes;
mod runs;
mod schedules;
mod server;
mod status;
#[cfg(test)]
mod tests;
pub mod tokens;

pub use app::App;
pub use server::{bind, router, serve};

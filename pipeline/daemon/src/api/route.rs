//! Defines the type of routes.

use super::state::ApiState;
use axum::http::Method;
use axum::routing::MethodRouter;
use schemars::{Schema, SchemaGenerator};
use std::sync::Arc;

/// Generates a type's schema.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub struct ApiRoute {
    pub method: Method,
    /// Path below `/api/v1`, with parameters in braces.
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    /// Schema whose properties are the parameters of the query string.
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    pub response: SchemaOf,
    pub handler: MethodRouter<Arc<ApiState>>,
}

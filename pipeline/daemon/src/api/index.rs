//! Lists the paths of the API, for readers who begin at its root.

use super::openapi::ROOT;
use super::route::ApiRoute;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All paths of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Path of the OpenAPI document, which describes all parameters and responses.
    pub openapi: String,
    /// Paths in the order of the document.
    pub paths: Vec<IndexPath>,
}

/// One path and method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IndexPath {
    /// Method: `GET` or `POST`.
    pub method: String,
    /// Path, with parameters in braces.
    pub path: String,
    /// Purpose.
    pub summary: String,
}

/// Returns the index of these routes.
pub fn of(routes: &[ApiRoute]) -> Index {
    let path = |route: &ApiRoute| IndexPath {
        method: route.method.to_string(),
        path: format!("{ROOT}{}", route.path),
        summary: route.summary.to_string(),
    };
    Index { openapi: format!("{ROOT}/openapi.json"), paths: routes.iter().map(path).collect() }
}

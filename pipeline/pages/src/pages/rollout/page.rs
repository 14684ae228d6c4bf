//! Row of a page, as all its parts need it.

use crate::error::PageError;
use crate::pages::rollout_parts::place::{ArtifactPlace, wrong_parameter};
use crate::request::PageRequest;

/// Row of a page: its artifact, its number, and the request.
pub struct RowPage {
    /// Artifact of the row.
    pub place: ArtifactPlace,
    /// Number of the row, from 0.
    pub row: u64,
    /// Links and person of the request.
    pub request: PageRequest,
}

/// Reads the number of a row in an address. Errors: 400 (no number).
pub fn row_number(row: &str) -> Result<u64, PageError> {
    row.parse().map_err(|why| wrong_parameter("row", why))
}

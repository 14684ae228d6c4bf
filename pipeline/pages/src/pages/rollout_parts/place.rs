//! Place of pages about the rows of an artifact: the artifact, its name, and the pages above.

use crate::areas;
use crate::error::PageError;
use crate::layout::Heading;
use crate::links::Links;
use crate::state::PageState;
use axum::http::StatusCode;
use maud::{Markup, html};
use trainyard_core::{Error, ErrorKind};
use trainyard_views::find::{self, ResolvedOutput};
use trainyard_views::search::NoteSink;

/// Artifact of an address.
pub struct ArtifactPlace {
    /// The artifact.
    pub found: ResolvedOutput,
    /// Digest of its stage.
    pub digest: String,
    /// Name in errors.
    pub name: String,
}

impl ArtifactPlace {
    /// Finds the artifact of an address. Errors: 404 (no such artifact), those of the store.
    pub async fn find(app: &PageState, digest: &str, output: &str) -> Result<Self, PageError> {
        let found = find::artifact(&app.store, &format!("{digest}/{output}")).await?;
        let made = &found.manifest.provenance;
        let name = format!("{}/{}/{}", made.run, made.stage, found.port);
        Ok(Self { digest: found.manifest.stage_digest.to_string(), name, found })
    }
    /// Returns the name of the output.
    pub fn output(&self) -> &str {
        &self.found.port
    }
    /// Returns the heading of a page of the artifact.
    pub fn heading(&self, links: &Links, title: impl Into<String>) -> Heading {
        let made = &self.found.manifest.provenance;
        let (run, stage) = (made.run.0.as_str(), made.stage.0.as_str());
        Heading::new(&areas::RUNS, title)
            .below(links.run(run), run)
            .below(links.stage(run, stage), stage)
            .below(links.artifact(&self.digest, self.output()), self.output())
    }
    /// Returns the address of the list of rollouts.
    pub fn rollouts(&self, links: &Links) -> String {
        links.rollouts(&self.digest, self.output())
    }
    /// Returns the address of a row.
    pub fn row(&self, links: &Links, row: u64) -> String {
        links.row(&self.digest, self.output(), row)
    }
    /// Returns the address of a part of the artifact.
    pub fn within(&self, links: &Links, part: &[&str]) -> String {
        links.within(&self.digest, self.output(), part)
    }
}

/// Returns the error of a parameter that cannot be read.
pub fn wrong_parameter(name: &str, why: impl std::fmt::Display) -> PageError {
    let message = format!("the parameter `{name}` cannot be read: {why}");
    PageError::new(StatusCode::BAD_REQUEST, message).help("correct the address, or open the page without it")
}

/// Converts an error of a view into one about the request, where the request can be wrong.
pub fn of_request(error: Error) -> PageError {
    let is_wrong = error.kind == ErrorKind::Invalid;
    let page = PageError::from(error);
    if is_wrong { PageError { status: StatusCode::BAD_REQUEST, ..page } } else { page }
}

/// Returns the receiver of notes of searches.
pub fn log_notes() -> NoteSink {
    std::sync::Arc::new(|note: &str| tracing::info!("{note}"))
}

/// Explains the keys of pages of rows, which the script `rollout.js` adds.
pub fn keys(next: &str) -> Markup {
    html! {
        p .muted .keys {
            "Keys: " kbd { "j" } " and " kbd { "k" } " " (next) ", " kbd { "/" } " the search field. "
            button #keys type="button" hidden { "Turn keys off" }
        }
    }
}

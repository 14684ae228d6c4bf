//! Buttons that cancel and resume a run, for the page of the run, and their handlers.

use crate::error::PageError;
use crate::forms::{self, FormFields};
use crate::request::PageRequest;
use crate::state::PageState;
use axum::extract::{Path, State};
use axum::response::Redirect;
use maud::{Markup, html};
use std::sync::Arc;
use trainyard_core::RunId;
use trainyard_views::find;

/// Returns the buttons for a run of this status that this person may use; nothing without a daemon.
pub fn of_run(page: &PageRequest, run: &str, status: &str) -> Markup {
    let may_change = page.links.has_daemon && page.user.may_change;
    let (can_cancel, can_resume) = (may_cancel(status), may_resume(status));
    html! {
        @if may_change && (can_cancel || can_resume) {
            div .actions role="group" aria-label="Actions" {
                @if can_cancel {
                    @let question = "Cancel the run? Its finished stages stay; it can be resumed.";
                    (forms::button(&page.user, &page.links.to(&["runs", run, "cancel"]), "Cancel", Some(question)))
                }
                @if can_resume {
                    (forms::button(&page.user, &page.links.to(&["runs", run, "resume"]), "Resume", None))
                }
            }
        }
    }
}

/// Returns whether a run of this status has not ended.
fn may_cancel(status: &str) -> bool {
    matches!(status, "running" | "unfinished")
}

/// Returns whether a run of this status has work left, and no process that does it.
fn may_resume(status: &str) -> bool {
    matches!(status, "unfinished" | "failed" | "cancelled")
}

/// Requests a run to stop.
pub async fn cancel(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(run): Path<String>,
    _: FormFields,
) -> Result<Redirect, PageError> {
    let daemon = app.daemon()?;
    let run = run_id(&run)?;
    daemon.cancel(&run).await?;
    tracing::info!(%run, by = forms::actor(&page.user), "run cancelled");
    Ok(Redirect::to(&page.links.run(&run.0)))
}

/// Resumes a run.
pub async fn resume(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(run): Path<String>,
    _: FormFields,
) -> Result<Redirect, PageError> {
    let daemon = app.daemon()?;
    let run = run_id(&run)?;
    find::view(&app.store, &run).await?;
    daemon.resume(&run).await.map_err(forms::refused)?;
    tracing::info!(%run, by = forms::actor(&page.user), "run resumed");
    Ok(Redirect::to(&page.links.run(&run.0)))
}

/// Checks the id of a run: other characters could address other objects of the store.
fn run_id(name: &str) -> Result<RunId, PageError> {
    let is_id = name.len() >= 8 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_id.then(|| RunId(name.to_string())).ok_or_else(|| {
        PageError::not_found(format!("there is no run {name:?}")).help("the list of runs has the ids of all runs")
    })
}

#[cfg(test)]
#[path = "actions_tests.rs"]
mod tests;

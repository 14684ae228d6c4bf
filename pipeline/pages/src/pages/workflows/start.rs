//! Starts a run of a workflow file with the values of a form.

use super::fields;
use crate::error::PageError;
use crate::forms::{FormFields, actor, refused};
use crate::links::query;
use crate::request::PageRequest;
use crate::state::PageState;
use axum::extract::{Path, State};
use axum::response::Redirect;
use std::sync::Arc;

/// Requests the run, and leads to the page of the file.
pub async fn start(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(file): Path<String>,
    form: FormFields,
) -> Result<Redirect, PageError> {
    let daemon = app.daemon()?;
    daemon.file(&file)?;
    let arguments = fields::arguments(&fields::values(form.all()))?;
    let tick = daemon.start(&file, arguments, &actor(&page.user)).await.map_err(refused)?;
    let address = format!("{}{}", page.links.workflow(&file), query(&[("started", &tick.run.0)]));
    Ok(Redirect::to(&address))
}

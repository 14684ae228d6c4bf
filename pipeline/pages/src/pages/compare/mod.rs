//! Comparison of models: the problems on which two models differ, and the rollouts of several models on one problem.

mod address;
mod flips;
mod problem;
#[cfg(test)]
mod tests;

use self::address::{Comparing, FLIPS, Shown, cleaned, other_artifact};
use crate::error::{PageError, PageResult};
use crate::layout::document;
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::request::PageRequest;
use crate::state::PageState;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use maud::html;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_views::comparison::{self, ComparedArtifacts, Flip, FlipPage, FlipQuery};

/// Problems on one page.
const PAGE: usize = 25;
/// Shows the flips of two models, or with `problem` the rollouts of one problem.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(chosen): Query<Comparing>,
) -> PageResult {
    let chosen = cleaned(chosen);
    let artifacts: Vec<String> = [format!("{digest}/{output}")].into_iter().chain(chosen.with.clone()).collect();
    let compared = comparison::load(&app.store, &artifacts).await?;
    let names: Vec<String> = compared.models.iter().map(|model| model.name.clone()).collect();
    let a = chosen.a.clone().or_else(|| names.first().cloned()).unwrap_or_default();
    let b = chosen.b.clone().or_else(|| names.iter().find(|name| **name != a).cloned()).unwrap_or_default();
    let title = if chosen.problem.is_some() { "Models on one problem" } else { "Comparison of models" };
    let heading = ArtifactPlace::find(&app, &digest, &output).await?.heading(&page.links, title);
    let (links, query) = (&page.links, &chosen);
    let shown = Shown { links, digest: &digest, output: &output, query, a: &a, b: &b };
    let content = if let Some(problem) = &chosen.problem {
        let models = if chosen.all.is_some() || b.is_empty() { Vec::new() } else { vec![a.clone(), b.clone()] };
        let (problem, sample) = (problem.clone(), number(chosen.sample.as_deref(), "sample")?);
        let found = in_thread(compared, move |compared| {
            let models: Vec<&str> = models.iter().map(String::as_str).collect();
            comparison::problem(compared, &models, &problem, sample)
        });
        problem::content(&shown, &found.await?, names.len())
    } else if b.is_empty() {
        html! {
            p { "This artifact has only one model: " (crate::text::visible(&a)) ". Name another one to compare with." }
            (other_artifact(&shown))
        }
    } else {
        let (query, is_chosen) = (flip_query(&shown)?, chosen.flip.is_some());
        let (found, flip) = in_thread(compared, move |compared| first_flips(compared, query, is_chosen)).await?;
        flips::content(&shown, &found, flip)
    };
    Ok(document(links, &heading, &content))
}

/// Lists the problems of the chosen verdicts; without a choice, of the first verdicts that a problem has.
fn first_flips(compared: &ComparedArtifacts, query: FlipQuery, is_chosen: bool) -> Result<(FlipPage, Flip)> {
    let found = comparison::flip_page(compared, &query)?;
    let first = FLIPS.iter().zip(found.counts).find(|(_, count)| *count > 0).map(|((_, flip, _), _)| *flip);
    match first.filter(|first| !is_chosen && *first != query.flip) {
        Some(flip) => Ok((comparison::flip_page(compared, &FlipQuery { flip, ..query })?, flip)),
        None => Ok((found, query.flip)),
    }
}

fn flip_query(shown: &Shown<'_>) -> Result<FlipQuery, PageError> {
    let query = shown.query;
    let flip = match query.flip.as_deref() {
        None => Flip::RightThenWrong,
        Some(name) => {
            let found = FLIPS.iter().find(|(known, ..)| *known == name);
            let names: Vec<&str> = FLIPS.iter().map(|(known, ..)| *known).collect();
            let wrong = PageError::new(StatusCode::BAD_REQUEST, format!("there is no flip `{name}`"));
            found.ok_or_else(|| wrong.help(format!("flips are {}", names.join(", "))))?.1
        }
    };
    Ok(FlipQuery {
        a: shown.a.to_string(),
        b: shown.b.to_string(),
        flip,
        level: number(query.level.as_deref(), "level")?,
        text: query.text.clone(),
        sample: number(query.sample.as_deref(), "sample")?,
        from: query.from.unwrap_or(0),
        limit: PAGE,
    })
}

fn number(text: Option<&str>, name: &str) -> Result<Option<i64>, PageError> {
    let wrong = |text: &str| {
        PageError::new(StatusCode::BAD_REQUEST, format!("the {name} is {text:?}, not a whole number"))
            .help(format!("leave `{name}` out of the address, or give a number"))
    };
    text.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

async fn in_thread<T: Send + 'static>(
    compared: ComparedArtifacts,
    work: impl FnOnce(&ComparedArtifacts) -> Result<T> + Send + 'static,
) -> Result<T> {
    let work = tokio::task::spawn_blocking(move || work(&compared));
    work.await.map_err(|e| Error::bug(format!("a comparison ended early: {e}")))?
}

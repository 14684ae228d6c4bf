//! Tags of a run: shown, added and removed.

use crate::access::{FORM_KEY, PageUser, check_form};
use crate::areas;
use crate::error::{PageError, PageResult};
use crate::layout::{Heading, document, empty};
use crate::links::{Links, query};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::visible;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::{annotations, find};

/// Form that adds or removes a tag.
#[derive(Debug, Deserialize)]
pub struct TagForm {
    /// Key of the form.
    form_key: String,
    /// Name of the tag.
    tag: String,
    /// `add` or `remove`.
    action: String,
}

/// Shows the tags of a run.
pub async fn show(State(app): State<Arc<PageState>>, page: PageRequest, Path(run): Path<String>) -> PageResult {
    let id = find::run(&app.store, &run).await?;
    let tags = annotations::tags_of(&app.store, &id).await?;
    let heading = Heading::new(&areas::RUNS, format!("Tags of run {id}"))
        .below(page.links.to(&[]), "Runs")
        .below(page.links.run(&id.0), id.0.as_str());
    Ok(document(&page.links, &heading, &forms(&page.links, &page.user, &id.0, &tags)))
}

/// Adds or removes a tag, and leads back to the tags.
pub async fn change(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(run): Path<String>,
    Form(form): Form<TagForm>,
) -> Result<Redirect, PageError> {
    check_form(&page.user, &form.form_key)?;
    if !page.user.may_change {
        return Err(PageError::new(StatusCode::FORBIDDEN, "tags need the right to make changes"));
    }
    let (tag, is_added) = (form.tag.trim(), form.action != "remove");
    if is_added {
        annotations::check_tag(tag)
            .map_err(|error| PageError { status: StatusCode::BAD_REQUEST, ..PageError::from(error) })?;
    }
    let id = find::run(&app.store, &run).await?;
    app.store.set_tag(&id, tag, is_added, Some(&page.user.name)).await?;
    Ok(Redirect::to("./tags"))
}

/// Returns the tags of a run, with forms for those who may change them.
pub fn forms(links: &Links, user: &PageUser, run: &str, tags: &[String]) -> Markup {
    let address = links.to(&["runs", run, "tags"]);
    html! {
        @if tags.is_empty() { (empty("The run has no tags.")) }
        ul .tags {
            @for tag in tags {
                li {
                    a .tag href=(format!("{}{}", links.to(&[]), query(&[("tag", tag)]))) { (visible(tag)) }
                    @if user.may_change {
                        form method="post" action=(address) {
                            input type="hidden" name=(FORM_KEY) value=(user.form_key);
                            input type="hidden" name="tag" value=(tag);
                            @let label = format!("Remove {tag}");
                            button type="submit" name="action" value="remove" aria-label=(label) { "✗" }
                        }
                    }
                }
            }
        }
        @if user.may_change {
            form .filters method="post" action=(address) {
                input type="hidden" name=(FORM_KEY) value=(user.form_key);
                label { "New tag" input type="text" name="tag" required maxlength="64" pattern="[A-Za-z0-9._\\-]+"; }
                button type="submit" name="action" value="add" { "Add" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pages::testing::{COOKIE, ORIGIN, form, get, pages, post, write_run};
    use axum::http::StatusCode;
    use serde_json::json;
    use trainyard_core::RunId;
    use trainyard_store::{Store, StoreOptions};

    const RUN: &str = "20261121-041530-0000abc";

    async fn store() -> Store {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        write_run(&store, RUN, "nightly", json!({}), &[]).await;
        store
    }

    #[tokio::test]
    async fn tags_are_added_and_removed_with_the_form_key() {
        let store = store().await;
        let pages = pages(&store, true);
        let path = format!("/runs/{RUN}/tags");
        let (_, html) = get(&pages, &path).await;
        let key = html.split("name=\"form_key\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_string();
        let add = form(&[("form_key", &key), ("tag", "best"), ("action", "add")]);
        let (status, _) = post(&pages, &path, &[COOKIE, ORIGIN], &add).await;
        assert_eq!(status, StatusCode::SEE_OTHER);
        let (_, html) = get(&pages, &path).await;
        assert!(html.contains("aria-label=\"Remove best\""), "{html}");
        assert_eq!(store.tags_of(&RunId(RUN.into())).await.unwrap()[0].by.as_deref(), Some("ada"));
        let remove = form(&[("form_key", &key), ("tag", "best"), ("action", "remove")]);
        post(&pages, &path, &[COOKIE, ORIGIN], &remove).await;
        assert!(get(&pages, &path).await.1.contains("The run has no tags."));
    }

    #[tokio::test]
    async fn wrong_keys_names_and_readers_are_refused() {
        let store = store().await;
        let path = format!("/runs/{RUN}/tags");
        let wrong = form(&[("form_key", "other"), ("tag", "best"), ("action", "add")]);
        let writers = pages(&store, true);
        assert_eq!(post(&writers, &path, &[COOKIE, ORIGIN], &wrong).await.0, StatusCode::FORBIDDEN);
        let (_, html) = get(&writers, &path).await;
        let key = html.split("name=\"form_key\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_string();
        let latest = form(&[("form_key", &key), ("tag", "latest"), ("action", "add")]);
        let (status, html) = post(&writers, &path, &[COOKIE, ORIGIN], &latest).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(html.contains("it already names a run"), "{html}");
        let readers = pages(&store, false);
        assert!(!get(&readers, &path).await.1.contains("method=\"post\""));
        let best = form(&[("form_key", &key), ("tag", "best"), ("action", "add")]);
        assert_eq!(post(&readers, &path, &[COOKIE, ORIGIN], &best).await.0, StatusCode::FORBIDDEN);
        assert!(store.tags_of(&RunId(RUN.into())).await.unwrap().is_empty());
    }
}

//! Recipes of published systems: what each changes, its checks, what was measured, and its workflow file.

use crate::areas;
use crate::catalogue::RecipeEntry;
use crate::error::{PageError, PageResult};
use crate::layout::{Heading, document, empty, scrolling};
use crate::links::Links;
use crate::request::{PageRequest, given};
use crate::state::PageState;
use crate::text::visible;
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Search in a catalogue.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CatalogueSearch {
    /// Text that every shown entry has.
    pub q: Option<String>,
}

/// Lists the recipes.
pub async fn list(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Query(search): Query<CatalogueSearch>,
) -> PageResult {
    app.make_recipes().await?;
    let text = given(search.q);
    let recipes: Vec<&RecipeEntry> =
        app.catalogue.recipes.iter().filter(|recipe| is_found(text.as_deref(), &words(recipe))).collect();
    let content = html! {
        (search_form("Name, system, mechanism or paper", text.as_deref()))
        @if recipes.is_empty() {
            (empty(if text.is_some() { "No recipe fits this search." } else { "This program has no recipes." }))
        } @else {
            p { "One training with arms that are equal but for the mechanism of a published system." }
            (scrolling("Recipes", &table(&page.links, &recipes)))
        }
    };
    Ok(document(&page.links, &Heading::new(&areas::RECIPES, "Recipes"), &content))
}

/// Shows one recipe.
pub async fn show(State(app): State<Arc<PageState>>, page: PageRequest, Path(name): Path<String>) -> PageResult {
    app.make_recipes().await?;
    let recipe = app.catalogue.recipes.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
        PageError::not_found(format!("there is no recipe `{name}`")).help("the page `recipes` lists all recipes")
    })?;
    let heading = Heading::new(&areas::RECIPES, recipe.name.as_str()).below(page.links.to(&["recipes"]), "Recipes");
    Ok(document(&page.links, &heading, &content(recipe)))
}

/// Returns the form that searches a catalogue.
pub fn search_form(label: &str, text: Option<&str>) -> Markup {
    html! {
        form .filters method="get" {
            label { (label) input type="search" name="q" value=[text]; }
            button type="submit" { "Search" }
        }
    }
}

/// Returns whether an entry with these texts has every word that was searched for, in any case.
pub fn is_found(search: Option<&str>, texts: &[&str]) -> bool {
    let all = texts.join("\n").to_lowercase();
    search.is_none_or(|search| search.to_lowercase().split_whitespace().all(|word| all.contains(word)))
}

fn words(recipe: &RecipeEntry) -> [&str; 6] {
    let RecipeEntry { name, subject, system, source, mechanism, measured, .. } = recipe;
    [name, subject, system, source, mechanism, measured]
}

fn table(links: &Links, recipes: &[&RecipeEntry]) -> Markup {
    html! {
        table {
            thead { tr { th { "Recipe" } th { "System" } th { "Paper" } th { "Mechanism" } th { "Measured" } } }
            tbody {
                @for recipe in recipes {
                    tr {
                        td { a href=(links.to(&["recipes", &recipe.name])) { (visible(&recipe.name)) } }
                        td { (visible(&recipe.system)) br; span .muted { (visible(&recipe.subject)) } }
                        td { (paper(&recipe.source)) }
                        td .wide { (visible(&recipe.mechanism)) }
                        td .wide { (measured(recipe)) }
                    }
                }
            }
        }
    }
}

/// Returns a publication, as a link if it is an arXiv number.
fn paper(source: &str) -> Markup {
    let number = source.strip_prefix("arXiv ").filter(|text| text.chars().all(|c| c.is_ascii_digit() || c == '.'));
    html! {
        @match number {
            Some(number) => a href=(format!("https://arxiv.org/abs/{number}")) rel="noreferrer" { (number) },
            None => (visible(source)),
        }
    }
}

fn measured(recipe: &RecipeEntry) -> &str {
    if recipe.measured.is_empty() { "not measured" } else { &recipe.measured }
}

fn content(recipe: &RecipeEntry) -> Markup {
    html! {
        p { strong { (visible(&recipe.system)) } ", " (paper(&recipe.source)) }
        h2 { "Mechanism" }
        p { (visible(&recipe.mechanism)) }
        @for (title, text) in [("Claim", &recipe.claim), ("Problems and policy", &recipe.world)] {
            @if !text.is_empty() { h2 { (title) } p { (visible(text)) } }
        }
        h2 { "Measured" }
        p { (visible(measured(recipe))) }
        h2 { "Checks" }
        (checks(recipe))
        h2 { "Limits" }
        p { (visible(&recipe.limits)) }
        h2 { "Run it" }
        @let name = visible(&recipe.name);
        pre { "trainyard recipes run " (name) "\ntrainyard init --recipe " (name) " FOLDER" }
        h2 { "Workflow file" }
        pre { (visible(&recipe.text)) }
    }
}

fn checks(recipe: &RecipeEntry) -> Markup {
    if let Some(problem) = &recipe.problem {
        return html! { p .failure { (visible(problem)) } };
    }
    if recipe.checks.is_empty() {
        return empty("The recipe has no checks.");
    }
    scrolling(
        "Checks",
        &html! {
            table {
                thead { tr { th { "Role" } th { "Stage" } th { "Metric" } th { "Required" } } }
                tbody {
                    @for check in &recipe.checks {
                        tr {
                            td { (visible(&check.role)) }
                            td .mono { (visible(&check.stage)) }
                            td .mono { (visible(&check.metric)) }
                            td { (visible(&check.bound)) }
                        }
                    }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{PageCatalogue, RecipeCheck};
    use crate::pages::testing::{get, pages_with};
    use axum::http::StatusCode;
    use trainyard_store::{Store, StoreOptions};

    fn recipe(name: &str, source: &str) -> RecipeEntry {
        let check =
            |role: &str, bound: &str| RecipeCheck { role: role.into(), bound: bound.into(), ..RecipeCheck::default() };
        RecipeEntry {
            name: name.into(),
            system: format!("{name} system"),
            source: source.into(),
            mechanism: "drops groups <b>without</b> variance".into(),
            checks: vec![check("mechanism", "at least 0.1")],
            text: format!("name: {name}\n"),
            ..RecipeEntry::default()
        }
    }

    #[tokio::test]
    async fn recipes_are_searched_and_shown_with_their_checks() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let recipes = vec![recipe("dapo", "arXiv 2503.14476"), recipe("other", "arXiv javascript:alert(1)")];
        let pages = pages_with(&store, false, PageCatalogue { recipes: recipes.into(), ..PageCatalogue::default() });
        let (_, html) = get(&pages, "/recipes").await;
        assert!(html.contains("href=\"recipes/dapo\"") && html.contains("href=\"recipes/other\""), "{html}");
        assert!(html.contains("https://arxiv.org/abs/2503.14476") && !html.contains("abs/javascript"), "{html}");
        assert!(html.contains("&lt;b&gt;without") && html.contains("not measured"), "{html}");
        let (_, html) = get(&pages, "/recipes?q=GROUPS+dapo").await;
        assert!(html.contains("recipes/dapo") && !html.contains("recipes/other"), "{html}");
        assert!(get(&pages, "/recipes?q=none").await.1.contains("No recipe fits this search."));
        let (status, html) = get(&pages, "/recipes/dapo").await;
        assert_eq!(status, StatusCode::OK);
        assert!(html.contains("at least 0.1") && html.contains("<pre>name: dapo"), "{html}");
        assert_eq!(get(&pages, "/recipes/none").await.0, StatusCode::NOT_FOUND);
    }
}

//! List of the workflow files.

use crate::areas;
use crate::error::PageResult;
use crate::layout::{Heading, document, empty, scrolling};
use crate::links::Links;
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text;
use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_daemon::folder::FolderFile;

/// Maximum files on the page.
const SHOWN: usize = 200;

/// Selection of files.
#[derive(Debug, Default, Deserialize)]
pub struct FileFilter {
    /// Part of the name of the file or the workflow.
    name: Option<String>,
}

/// Shows the list.
pub async fn list(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Query(filter): Query<FileFilter>,
) -> PageResult {
    let daemon = app.daemon()?;
    let part = filter.name.filter(|name| !name.is_empty());
    let mut files = daemon.files();
    files.retain(|file| part.as_ref().is_none_or(|p| file.file.contains(p) || file.workflow.contains(p)));
    let more = files.len().saturating_sub(SHOWN);
    files.truncate(SHOWN);
    let content = html! {
        p .muted { "Files of " (text::visible(&daemon.folder.to_string_lossy())) " on the host of the daemon." }
        form .filters method="get" {
            label { "Name contains" input type="search" name="name" value=[part.as_deref()]; }
            button type="submit" { "Filter" }
        }
        @if files.is_empty() {
            (empty("No workflow files here. A new file appears within seconds."))
        } @else {
            (scrolling("Workflow files", &table(&page.links, &files)))
        }
        @if more > 0 { p .muted { (more) " more: give a part of the name." } }
    };
    Ok(document(&page.links, &Heading::new(&areas::WORKFLOWS, "Workflows"), &content))
}

fn table(links: &Links, files: &[FolderFile]) -> Markup {
    html! {
        table {
            thead { tr { th { "File" } th { "Workflow" } th { "Schedule" } th { "Needs" } } }
            tbody {
                @for file in files {
                    tr {
                        td { a href=(links.workflow(&file.file)) { (text::visible(&file.file)) } }
                        td { (text::visible(&file.workflow)) }
                        td {
                            @if file.is_scheduled { a href=(links.schedule(&file.workflow)) { "schedule" } }
                        }
                        td .wide {
                            @if let Some(mistakes) = &file.mistakes {
                                (text::cut(mistakes.lines().next().unwrap_or_default(), 300).0)
                            }
                        }
                    }
                }
            }
        }
    }
}

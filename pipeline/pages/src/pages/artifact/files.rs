//! Files of an artifact, page by page.

use crate::layout::{empty, scrolling};
use crate::links::{Links, query};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::text::{bytes, count, cut, visible};
use maud::{Markup, html};

/// Files of a page.
const PAGE: usize = 100;
/// Maximum characters of a path.
const PATH: usize = 300;

/// Lists the files from an index on.
pub fn section(links: &Links, place: &ArtifactPlace, from: usize) -> Markup {
    let files = &place.found.output().files;
    let address = |from: usize| {
        let at = query(&[("files", &from.to_string())]);
        format!("{}{at}#files", links.artifact(&place.digest, place.output()))
    };
    let end = from.saturating_add(PAGE);
    html! {
        h2 #files { (count(files.len() as u64)) @if files.len() == 1 { " file" } @else { " files" } }
        @if from >= files.len() {
            (empty("There are no files from here on."))
        } @else {
            (scrolling("Files", &html! {
                table {
                    thead { tr { th { "Path" } th .n { "Size" } th { "SHA-256" } } }
                    tbody {
                        @for file in files.iter().skip(from).take(PAGE) {
                            tr {
                                td .wide { (cut(&file.path, PATH).0) }
                                td .n { (bytes(file.size)) }
                                td .mono { (visible(file.digest.short())) }
                            }
                        }
                    }
                }
            }))
        }
        @if from > 0 || end < files.len() {
            nav .pages aria-label="More files" {
                @if from > 0 { a rel="prev" href=(address(from.saturating_sub(PAGE))) { "Files before" } }
                @if end < files.len() {
                    a rel="next" href=(address(end)) { (count((files.len() - end) as u64)) " more files" }
                }
            }
        }
    }
}

//! Trees of forks.

use super::place::ArtifactPlace;
use super::words;
use crate::links::Links;
use crate::text::{count, number};
use maud::{Markup, html};
use trainyard_views::rollouts::ForkNode;

/// Levels of a tree that are shown; deeper forks are counted.
const LEVELS: usize = 12;

/// Shows trees of forks as nested lists; `current` is the row of the page.
pub fn tree(links: &Links, place: &ArtifactPlace, nodes: &[ForkNode], current: Option<u64>) -> Markup {
    level(links, place, nodes, current, LEVELS)
}

fn level(links: &Links, place: &ArtifactPlace, nodes: &[ForkNode], current: Option<u64>, left: usize) -> Markup {
    if left == 0 {
        return html! { p .muted { (count(size(nodes))) " deeper forks" } };
    }
    html! {
        ul .forks {
            @for node in nodes {
                @let member = &node.member;
                @let is_current = current == Some(member.row);
                li {
                    a href=(place.row(links, member.row)) aria-current=[is_current.then_some("page")] {
                        "Sample " (member.sample)
                    }
                    @if is_current { " (this one)" }
                    @if let Some(at) = member.fork_at { ", forked at token " (count(u64::from(at))) }
                    ", " (words::verdict(member.verdict)) ", reward " (number(member.reward))
                    @if !node.forks.is_empty() { (level(links, place, &node.forks, current, left - 1)) }
                }
            }
        }
    }
}

/// Counts the forks of trees, without recursion, since a chain may be long.
fn size(nodes: &[ForkNode]) -> u64 {
    let (mut left, mut total) = (nodes.iter().collect::<Vec<_>>(), 0);
    while let Some(node) = left.pop() {
        total += 1;
        left.extend(&node.forks);
    }
    total
}

//! Formats the hits of a search.

use super::clean::{AllowedCodes, clean};
use super::shell;
use super::style::Style;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trainyard_views::search::{Excerpt, SearchHit, SearchPage};

/// Formats the hits, each with the command that opens it, and a summary.
pub fn text(page: &SearchPage) -> String {
    let style = Style::of_stdout();
    let mut text = String::new();
    for hit in &page.hits {
        let _ = writeln!(text, "{}\n  {}\n  {}\n", heading(hit), excerpt(&hit.excerpt, style), command(hit));
    }
    text.push_str(&summary(page));
    text
}

/// Returns the document of a search: the page, with the command that opens each hit.
pub fn document(page: &SearchPage) -> Value {
    let mut document = json!(page);
    if let Some(hits) = document["hits"].as_array_mut() {
        for (hit, found) in hits.iter_mut().zip(&page.hits) {
            hit["command"] = command(found).into();
        }
    }
    document
}

/// Formats where a hit is. The id and the role come from the artifact, so they are escaped on one line.
fn heading(hit: &SearchHit) -> String {
    let mut heading = format!("{} row {}, id {}", hit.artifact, hit.row, plain(&hit.id));
    let _ = write!(heading, ", message {} ({})", hit.message, plain(&hit.role));
    if let Some(reward) = hit.reward {
        let _ = write!(heading, ", reward {reward}");
    }
    if let Some(is_correct) = hit.correct {
        heading.push_str(if is_correct { ", right" } else { ", wrong" });
    }
    if let Some(step) = hit.step {
        let _ = write!(heading, ", step {step}");
    }
    heading
}

fn excerpt(excerpt: &Excerpt, style: Style) -> String {
    format!("{}{}{}", plain(&excerpt.before), style.bold(&plain(&excerpt.found)), plain(&excerpt.after))
}

/// Escapes a text of an artifact, including codes for colors, which the terminal would otherwise obey.
fn plain(text: &str) -> String {
    clean(text, AllowedCodes::Nothing).replace('\n', "⏎")
}

/// Returns the command that shows the row of a hit.
fn command(hit: &SearchHit) -> String {
    format!("trainyard artifacts show {} --row {}", shell::word(&hit.artifact), hit.row)
}

fn summary(page: &SearchPage) -> String {
    let shown = page.hits.len() as u64;
    let more = if shown < page.matching_messages {
        format!("; the first {shown} are shown, and `--limit N` shows more")
    } else {
        String::new()
    };
    format!(
        "{} in {}, of {} in {} of {}{more}",
        counted(page.matching_messages, "hit"),
        counted(page.matching_rows, "row"),
        counted(page.messages, "message"),
        counted(page.rows, "row"),
        counted(page.artifacts, "artifact"),
    )
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(artifact: &str, found: &str) -> SearchHit {
        SearchHit {
            artifact: artifact.into(),
            row: 7,
            id: "a\nb".into(),
            message: 2,
            role: "assistant".into(),
            reward: Some(0.5),
            correct: Some(false),
            step: Some(40),
            excerpt: Excerpt { before: "…I ".into(), found: found.into(), after: " so".into() },
        }
    }

    #[test]
    fn hits_are_three_lines_and_their_texts_are_escaped() {
        let page = SearchPage {
            hits: vec![hit("r/rl[seed=1]/trajectories", "think\x1b[31;1m")],
            matching_messages: 3,
            matching_rows: 1,
            artifacts: 1,
            messages: 1000,
            rows: 300,
            skipped: Vec::new(),
        };
        assert_eq!(
            text(&page),
            "r/rl[seed=1]/trajectories row 7, id a⏎b, message 2 (assistant), reward 0.5, wrong, step 40\n  \
             …I think\\u{1b}[31;1m so\n  \
             trainyard artifacts show 'r/rl[seed=1]/trajectories' --row 7\n\n\
             3 hits in 1 row, of 1000 messages in 300 rows of 1 artifact; the first 1 are shown, and `--limit N` shows \
             more"
        );
        let document = document(&page);
        assert_eq!(document["hits"][0]["excerpt"]["found"], "think\x1b[31;1m");
        assert_eq!(document["hits"][0]["command"], "trainyard artifacts show 'r/rl[seed=1]/trajectories' --row 7");
    }

    #[test]
    fn plain_names_are_not_quoted() {
        assert_eq!(command(&hit("r-1/rl/x", "y")), "trainyard artifacts show r-1/rl/x --row 7");
        assert_eq!(summary(&SearchPage::default()), "0 hits in 0 rows, of 0 messages in 0 rows of 0 artifacts");
    }
}

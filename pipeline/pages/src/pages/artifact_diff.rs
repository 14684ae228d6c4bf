//! Comparison of two artifacts: configuration, inputs, metrics, columns, rows, tensors, files, notes.

use super::changes::{self, MAX_ROWS, more, short};
use crate::areas;
use crate::error::{PageError, PageResult};
use crate::layout::{Heading, document, empty, scrolling};
use crate::links::Links;
use crate::request::{PageRequest, given};
use crate::state::PageState;
use crate::text::{bytes, count, number, visible};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::annotations::{self, NoteRow};
use trainyard_views::diff::{
    ArtifactDiff, ArtifactSide, ChangedRow, ColumnsDiff, FilesDiff, InputArtifact, RowName, RowsDiff, TensorsDiff,
    diff_artifacts,
};
use trainyard_views::find;

/// Rows of each kind of difference that are shown.
const SHOWN: usize = 20;

/// Other artifact of a comparison.
#[derive(Debug, Deserialize)]
pub struct Chosen {
    /// Name of the artifact.
    with: Option<String>,
}

/// Leads from the form of an artifact to its comparison with another one.
pub async fn choose(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(chosen): Query<Chosen>,
) -> Result<Redirect, PageError> {
    let Some(with) = given(chosen.with) else {
        let error = PageError::new(StatusCode::BAD_REQUEST, "a comparison needs two artifacts");
        return Err(error.help("name the other one, as in `?with=latest/rl/trajectories`"));
    };
    let other = find::artifact(&app.store, with.trim()).await?;
    let other_digest = other.manifest.stage_digest.to_string();
    Ok(Redirect::to(&page.links.to(&["artifacts", &digest, &output, "diff", &other_digest, &other.port])))
}

/// Returns the form that names another artifact to compare with. `example`: name of an artifact of another run.
pub fn form(links: &Links, digest: &str, output: &str, example: &str) -> Markup {
    html! {
        h2 { "Compare with another artifact" }
        form .filters method="get" action=(links.within(digest, output, &["diff"])) {
            label {
                "Other artifact"
                input type="text" name="with" required placeholder=(visible(example)) size="36";
            }
            button type="submit" { "Show differences" }
        }
    }
}

/// Shows the comparison.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest_a, output_a, digest_b, output_b)): Path<(String, String, String, String)>,
) -> PageResult {
    let (name_a, name_b) = (format!("{digest_a}/{output_a}"), format!("{digest_b}/{output_b}"));
    let (a, b) = (find::artifact(&app.store, &name_a).await?, find::artifact(&app.store, &name_b).await?);
    let diff = diff_artifacts(&app.store, (&name_a, &a), (&name_b, &b), SHOWN).await?;
    let notes = [
        annotations::notes_of(&app.store, &a.output().digest).await?,
        annotations::notes_of(&app.store, &b.output().digest).await?,
    ];
    let heading = Heading::new(&areas::RUNS, "Comparison of artifacts")
        .below(page.links.to(&[]), "Runs")
        .below(page.links.artifact(&digest_a, &output_a), "A")
        .below(page.links.artifact(&digest_b, &output_b), "B");
    let swapped = page.links.to(&["artifacts", &digest_b, &output_b, "diff", &digest_a, &output_a]);
    let content = html! {
        (scrolling("Artifacts", &sides(&page.links, &diff, [&output_a, &output_b])))
        p { a href=(swapped) { "Swap A and B" } }
        (content(&diff))
        (notes_of("A", &notes[0]))
        (notes_of("B", &notes[1]))
    };
    Ok(document(&page.links, &heading, &content))
}

fn sides(links: &Links, diff: &ArtifactDiff, outputs: [&String; 2]) -> Markup {
    let side = |name: &str, side: &ArtifactSide, output: &str| {
        html! {
            tr {
                th scope="row" { (name) }
                td { a .mono href=(links.artifact(&side.stage_digest, output)) { (short(&side.artifact)) } }
                td { (side.kind) " of " (visible(&side.stage_kind)) " " (side.kind_version) }
                td .n { (side.generation) }
                td .n { (bytes(side.bytes)) }
                td .n { @if let Some(rows) = side.rows { (count(rows)) } }
            }
        }
    };
    html! {
        table {
            thead {
                tr {
                    th { "Side" } th { "Artifact" } th { "Kind" } th .n { "Generation" } th .n { "Size" }
                    th .n { "Rows" }
                }
            }
            tbody { (side("A", &diff.a, outputs[0])) (side("B", &diff.b, outputs[1])) }
        }
    }
}

fn content(diff: &ArtifactDiff) -> Markup {
    html! {
        @if diff.is_same { (empty("Both names are the same artifact.")) }
        @else if diff.is_equal { p .right { "✓ The content is equal." } }
        (changes::keys("Options of the stages", &diff.config))
        (inputs(diff))
        (changes::keys("Metadata", &diff.metadata))
        @if !diff.metrics.is_empty() { h2 { "Metrics of the stages" } (changes::metrics(&diff.metrics)) }
        @if let Some(columns) = &diff.columns { (columns_of(columns)) }
        @if let Some(rows) = &diff.rows { (rows_of(rows)) }
        @if let Some(tensors) = &diff.tensors { (tensors_of(tensors)) }
        @if let Some(files) = &diff.files { (files_of(files)) }
    }
}

fn inputs(diff: &ArtifactDiff) -> Markup {
    let list = |artifacts: &[InputArtifact]| {
        html! {
            @for artifact in artifacts.iter().take(MAX_ROWS) { code { (short(&artifact.artifact)) } br; }
        }
    };
    html! {
        @if !diff.inputs.is_empty() {
            h2 { "Inputs of the stages" }
            (scrolling("Inputs", &html! {
                table {
                    thead { tr { th { "Input" } th { "A" } th { "B" } } }
                    tbody {
                        @for input in &diff.inputs {
                            tr { td .mono { (short(&input.input)) } td { (list(&input.a)) } td { (list(&input.b)) } }
                        }
                    }
                }
            }))
        }
    }
}

fn columns_of(columns: &ColumnsDiff) -> Markup {
    let names = |title: &str, names: &[String]| {
        html! {
            @if !names.is_empty() {
                p { (title) ": " @for name in names.iter().take(MAX_ROWS) { code { (short(name)) } " " } }
            }
        }
    };
    html! {
        (names("Columns only in A", &columns.only_a))
        (names("Columns only in B", &columns.only_b))
        @for column in columns.retyped.iter().take(MAX_ROWS) {
            p {
                "Column " code { (short(&column.column)) } " is " (short(&column.a)) " in A, "
                (short(&column.b)) " in B."
            }
        }
    }
}

fn rows_of(rows: &RowsDiff) -> Markup {
    let key = rows.key.as_deref().unwrap_or("position");
    let hidden = rows.changed - rows.first_changed.len().min(rows.changed);
    html! {
        h2 { "Rows" }
        p { "Matched by " code { (visible(key)) } "." }
        dl .tiles {
            @for (name, value) in [("only in A", rows.only_a), ("only in B", rows.only_b), ("equal", rows.equal),
                ("changed", rows.changed)] {
                div { dt { (name) } dd { (count(value as u64)) } }
            }
        }
        @if !rows.columns.is_empty() {
            p {
                "Changed columns: "
                @for column in rows.columns.iter().take(MAX_ROWS) {
                    code { (short(&column.column)) } " (" (column.rows) ") "
                }
            }
        }
        @for row in &rows.first_changed { (changed_row(row)) }
        @if hidden > 0 { p .muted { (count(hidden as u64)) " more changed rows" } }
        (row_names("Rows only in A", &rows.first_only_a, rows.only_a))
        (row_names("Rows only in B", &rows.first_only_b, rows.only_b))
    }
}

fn changed_row(row: &ChangedRow) -> Markup {
    let key = row.key.as_deref().map(|key| format!("{}: ", visible(key))).unwrap_or_default();
    html! {
        h3 { (key) "row " (row.row_a) " of A, row " (row.row_b) " of B" }
        (scrolling("Cells that differ", &html! {
            table {
                thead { tr { th { "Column" } th { "A" } th { "B" } } }
                tbody {
                    @for cell in &row.cells {
                        tr {
                            td .mono { (short(&cell.column)) }
                            td .wide { (visible(&cell.a)) }
                            td .wide { (visible(&cell.b)) }
                        }
                    }
                }
            }
        }))
    }
}

fn row_names(title: &str, rows: &[RowName], all: usize) -> Markup {
    html! {
        @if !rows.is_empty() {
            h3 { (title) ": " (count(all as u64)) }
            ul {
                @for row in rows { li { @if let Some(key) = &row.key { (visible(key)) " " } "row " (row.row) } }
            }
            (more(all, rows.len()))
        }
    }
}

fn tensors_of(tensors: &TensorsDiff) -> Markup {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "–".to_string(), number);
    html! {
        h2 { "Tensors" }
        p {
            (tensors.equal) " equal, " (tensors.changed.len()) " changed, "
            (tensors.reshaped.len()) " of another shape, " (tensors.only_a.len()) " only in A, "
            (tensors.only_b.len()) " only in B"
            @if let Some(relative) = tensors.relative { "; ‖a−b‖/‖a‖ of all " (number(relative)) } "."
        }
        @if !tensors.changed.is_empty() {
            (scrolling("Tensors that differ", &html! {
                table {
                    thead {
                        tr { th { "Tensor" } th { "Shape" } th { "Type" } th .n { "‖a−b‖/‖a‖" } th .n { "‖a−b‖" } }
                    }
                    tbody {
                        @for tensor in tensors.changed.iter().take(MAX_ROWS) {
                            tr {
                                td .mono { (short(&tensor.name)) }
                                td { (format!("{:?}", tensor.shape)) }
                                td {
                                    (visible(&tensor.dtype_a))
                                    @if tensor.dtype_a != tensor.dtype_b { " → " (visible(&tensor.dtype_b)) }
                                }
                                td .n { (or_dash(tensor.relative)) }
                                td .n { (or_dash(tensor.norm)) }
                            }
                        }
                    }
                }
            }))
            (more(tensors.changed.len(), MAX_ROWS))
        }
    }
}

fn files_of(files: &FilesDiff) -> Markup {
    html! {
        @if files.only_a + files.only_b + files.changed > 0 {
            h2 { "Files" }
            p {
                (files.only_a) " only in A, " (files.only_b) " only in B, " (files.equal) " equal, "
                (files.changed) " changed."
            }
            ul {
                @for file in files.first_changed.iter().take(MAX_ROWS) {
                    li { code { (short(&file.a.path)) } " changed: " (bytes(file.a.bytes)) " → " (bytes(file.b.bytes)) }
                }
                @for (side, list) in [("A", &files.first_only_a), ("B", &files.first_only_b)] {
                    @for file in list.iter().take(MAX_ROWS) {
                        li { code { (short(&file.path)) } " only in " (side) ": " (bytes(file.bytes)) }
                    }
                }
            }
        }
    }
}

fn notes_of(side: &str, notes: &[NoteRow]) -> Markup {
    html! {
        @if !notes.is_empty() {
            h2 { "Notes about " (side) }
            ul {
                @for note in notes.iter().take(MAX_ROWS) {
                    li {
                        (short(&note.text)) " "
                        span .muted {
                            @if let Some(row) = note.row { "row " (row) ", " }
                            @if let Some(by) = &note.by { (visible(by)) ", " }
                            time datetime=(note.at) { (note.at) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pages::testing::{get, pages, publish, table};
    use axum::http::StatusCode;
    use serde_json::json;
    use trainyard_store::{Store, StoreOptions};
    use trainyard_tables::TableBuilder;

    #[tokio::test(flavor = "multi_thread")]
    async fn options_rows_and_notes_are_compared() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let rows = |texts: [&str; 2]| TableBuilder::new().string("id", ["a", "b"]).string("text", texts);
        rows(["x", "same"]).write(&path).unwrap();
        let first = table(&store, &path).await;
        rows(["<img src=x>\u{202e}", "same"]).write(&path).unwrap();
        let second = table(&store, &path).await;
        let a = publish(&store, "a", &[("rows", &first)], json!({"lr": 1})).await;
        let b = publish(&store, "b", &[("rows", &second)], json!({"lr": "javascript:alert(1)"})).await;
        store.add_note(&second.digest, Some(1), "<b>odd</b>", Some("ada")).await.unwrap();
        let pages = pages(&store, false);
        let (status, html) = get(&pages, &format!("/artifacts/{a}/rows/diff/{b}/rows")).await;
        assert_eq!(status, StatusCode::OK, "{html}");
        assert!(html.contains("Matched by <code>id</code>"), "{html}");
        assert!(html.contains("<dt>equal</dt><dd>1</dd>") && html.contains("<dt>changed</dt><dd>1</dd>"), "{html}");
        assert!(html.contains("&lt;img src=x&gt;\\u{202e}") && !html.contains("<img"), "{html}");
        assert!(!html.contains("href=\"javascript:") && html.contains("<code>javascript:alert(1)</code>"), "{html}");
        assert!(html.contains("Notes about B") && html.contains("&lt;b&gt;odd&lt;/b&gt;"), "{html}");
        assert!(!html.contains("Notes about A"));
        let (_, shown) = get(&pages, &format!("/artifacts/{a}/rows")).await;
        assert!(
            shown.contains(&format!("action=\"../../artifacts/{a}/rows/diff\"")),
            "the artifact leads here: {shown}"
        );
        let (status, _) = get(&pages, &format!("/artifacts/{a}/rows/diff?with={b}/rows")).await;
        assert_eq!(status, StatusCode::SEE_OTHER);
        let (status, html) = get(&pages, &format!("/artifacts/{a}/rows/diff?with=")).await;
        assert!(status == StatusCode::BAD_REQUEST && html.contains("name the other one"), "{html}");
        assert_eq!(get(&pages, &format!("/artifacts/{a}/rows/diff?with=none")).await.0, StatusCode::NOT_FOUND);
        let (_, same) = get(&pages, &format!("/artifacts/{a}/rows/diff/{a}/rows")).await;
        assert!(same.contains("Both names are the same artifact."), "{same}");
        assert_eq!(get(&pages, &format!("/artifacts/{a}/none/diff/{b}/rows")).await.0, StatusCode::NOT_FOUND);
    }
}

//! Pages of artifacts.

use crate::PageQueries;
use crate::pages::data_store::{address, pages};
use crate::pages::rollout_parts::test_store::{get, page};
use trainyard_core::Digest;

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_shows_what_it_is_and_what_made_it() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("filter", "kept", "")).await;
    for part in [
        "<dt>Kind</dt><dd>trajectories</dd>",
        "<dt>Rows</dt><dd>2</dd>",
        "<dt>Stage kind</dt><dd>data/filter</dd>",
        "runs/r/stages/filter",
        "kept/rollouts",
        "kept/verdicts",
        "kept/query",
        "kept/lineage",
        "<h2>Columns</h2>",
        "Other outputs of the stage",
        "&lt;b&gt;format&lt;/b&gt;",
        "<h2>Config of the stage</h2>",
        "data.parquet",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    let made = page(&pages, &address("made", "rows", "")).await;
    assert!(made.contains(&format!("artifacts/{}/kept", Digest::of(b"filter"))), "the input is a link: {made}");
    assert!(!made.contains("rows/verdicts") && !made.contains("rows/rollouts"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_rendered() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("filter", "report", "")).await;
    for part in
        ["<h2>Filter &lt;script&gt;", "<h3>Rules, in order</h3>", "near_duplicates", "Loss, nats by step", "A note."]
    {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(!html.contains("report/query") && !html.contains("report/rows"), "a report has no rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_paged() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("made", "files", "")).await;
    assert!(html.contains("250 files") && html.contains("file-099") && !html.contains("file-100"), "{html}");
    assert!(html.contains("150 more files") && html.contains("?files=100#files"), "{html}");
    let html = page(&pages, &address("made", "files", "?files=200").replace("/?", "?")).await;
    assert!(html.contains("file-249") && html.contains("Files before") && !html.contains("more files"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_artifacts_and_runs_are_errors_with_help() {
    let pages = pages(PageQueries::default()).await;
    let (status, html) = get(&pages, &address("filter", "none", "")).await;
    assert!(status == 404 && html.contains("its outputs are kept, rejected, report"), "{html}");
    let html = page(&pages, "/artifacts").await;
    assert!(html.contains("The store has no runs yet"), "{html}");
    let (status, html) = get(&pages, "/artifacts?run=nope").await;
    assert!(status == 404 && html.contains("no run is called `nope`"), "{html}");
}

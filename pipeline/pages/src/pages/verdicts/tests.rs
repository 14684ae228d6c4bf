//! Pages of the verdicts of filters.

use crate::PageQueries;
use crate::pages::data_store::{address, pages};
use crate::pages::rollout_parts::test_store::{get, page};

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_a_chart_and_a_table() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("filter", "kept", "verdicts")).await;
    for part in [
        "2 of 4 rows were kept.",
        "4 rows; near_duplicates drops 1 of 4; language drops 1 of 3; 2 are kept",
        "<th scope=\"row\">language</th><td class=\"n\">3</td><td class=\"n\">2</td><td class=\"n\">1</td>",
        "near_duplicates, first rows of each reason",
        "rejected/rows?id=c",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    let numbers = html.matches("class=\"bar c0\"").count();
    assert_eq!(numbers, 2, "a bar for each rule: {html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn near_duplicates_are_side_by_side() {
    let pages = pages(PageQueries::default()).await;
    let html = page(&pages, &address("filter", "rejected", "verdicts")).await;
    assert!(html.contains("b repeats a, similarity 0.913"), "{html}");
    assert!(html.contains("<del>4</del>") && html.contains("<ins>3</ins>"), "{html}");
    assert!(html.contains("rejected/rows/0") && html.contains("kept/rows/0"), "both rows are links: {html}");
    let html = page(&pages, &address("filter", "rejected", "verdicts?from=1")).await;
    assert!(html.contains("There are no near-duplicates among these rejected rows."), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_stages_have_no_rules() {
    let pages = pages(PageQueries::default()).await;
    let (status, html) = get(&pages, &address("numbers", "numbers", "verdicts")).await;
    assert!(status == 400 && html.contains("`data/import` has no rules that reject rows"), "{html}");
}

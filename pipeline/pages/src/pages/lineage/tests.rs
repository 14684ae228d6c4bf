//! Pages of lineage.

use super::*;
use crate::PageQueries;
use crate::pages::data_store::{address, pages};
use crate::pages::rollout_parts::test_store::{HOSTILE, get, page};
use trainyard_core::Digest;

#[tokio::test(flavor = "multi_thread")]
async fn stages_and_rows_lead_to_their_sources() {
    let pages = pages(PageQueries::default()).await;
    let kept = format!("artifacts/{}/kept", Digest::of(b"filter"));
    let html = page(&pages, &address("made", "rows", "lineage")).await;
    assert!(html.contains(&format!("{kept}\"")) && html.contains("r/filter/kept"), "{html}");
    let html = page(&pages, &address("made", "rows", "lineage?row=0")).await;
    assert!(html.contains(&format!("{kept}/rows/0")) && html.contains("kept from"), "{html}");
    let by_id = page(&pages, &address("made", "rows", "lineage?id=a")).await;
    assert!(by_id.contains("Lineage of row 0"), "{by_id}");
    let (status, html) = get(&pages, &address("made", "rows", "lineage?row=7")).await;
    assert!(status == 400 && html.contains("there is no row 7"), "{html}");
    assert_eq!(get(&pages, &address("made", "rows", "lineage?row=x")).await.0, 400);
}

fn source(number: usize) -> LineageNode {
    LineageNode {
        relation: Relation::Source,
        artifact: None,
        stage_digest: None,
        stage_kind: None,
        row: None,
        id: Some(format!("file{HOSTILE}.jsonl:{number}")),
        text: None,
        inputs: Vec::new(),
        sources: Vec::new(),
        note: None,
    }
}

#[test]
fn many_sources_are_folded() {
    let digest = "d".repeat(64);
    let of = LineageNode {
        relation: Relation::Row,
        artifact: Some("r/s/rows".to_string()),
        stage_digest: Some(digest.clone()),
        row: Some(3),
        sources: (0..30).map(source).collect(),
        ..source(0)
    };
    let html = node(&Links::from_path("/a/b/c"), &of).into_string();
    assert!(html.contains(&format!("../../artifacts/{digest}/rows/rows/3")), "{html}");
    assert!(html.contains("<summary>10 more sources</summary>") && html.contains(":29"), "{html}");
    assert!(!html.contains("<script>") && !html.contains('\u{202e}'), "{html}");
}

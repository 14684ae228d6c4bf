use crate::catalogue::{PageCatalogue, PartEntry};
use crate::pages::testing::{get, pages_with};
use axum::http::StatusCode;
use serde_json::json;
use trainyard_core::metric::DeclaredMetrics;
use trainyard_core::{ArtifactKind, Cardinality, KindInfo, MetricInfo, Placement, PortInfo};
use trainyard_store::{Store, StoreOptions};

fn rl() -> KindInfo {
    let metrics = vec![MetricInfo::new("reward", "points", "mean reward")];
    KindInfo {
        name: "rl",
        version: 3,
        summary: "trains with rewards",
        doc: "Documentation with <angle> brackets.",
        inputs: vec![PortInfo {
            name: "model",
            kind: ArtifactKind::Model,
            cardinality: Cardinality::One,
            doc: "start",
        }],
        outputs: Vec::new(),
        options: json!({"properties": {"steps": {"type": "integer", "default": 7, "description": "Number of steps."}}})
            .into(),
        placement: Placement::Process,
        all_cpus: true,
        trains: true,
        plays: true,
        example: "steps: 9",
        main_metric: Some("reward"),
        main_metric_with: Vec::new(),
        metrics: DeclaredMetrics { metrics, ..DeclaredMetrics::default() },
        families: vec!["losses"],
    }
}

fn part(name: &str, family: &str) -> PartEntry {
    let options = json!({"properties": {"kind": {"const": "clip"}, "low": {"type": "number"}}});
    PartEntry { name: name.into(), family: family.into(), summary: "clips".into(), options, ..PartEntry::default() }
}

#[tokio::test]
async fn kinds_show_ports_options_metrics_and_their_parts() {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let parts = vec![part("filters/drop", "filters"), part("losses/clip", "losses")];
    let pages = pages_with(&store, false, PageCatalogue { kinds: vec![rl()], parts, ..PageCatalogue::default() });
    let (_, html) = get(&pages, "/stages").await;
    assert!(html.contains("href=\"stages/rl\"") && html.contains("href=\"stages/losses%2Fclip\""), "{html}");
    let (_, html) = get(&pages, "/stages?q=CLIP+losses").await;
    assert!(html.contains("losses/clip") && !html.contains("filters/drop") && !html.contains("stages/rl"), "{html}");
    let (status, html) = get(&pages, "/stages/rl").await;
    assert_eq!(status, StatusCode::OK);
    for part in ["&lt;angle&gt;", "Number of steps.", ">7<", "mean reward", "steps: 9", "losses/clip", ">model<"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("filters/drop"), "its options name no filters");
    let (_, html) = get(&pages, "/stages/losses%2Fclip").await;
    assert!(html.contains(">low<") && !html.contains(">kind<"), "{html}");
    assert_eq!(get(&pages, "/stages/none").await.0, StatusCode::NOT_FOUND);
}

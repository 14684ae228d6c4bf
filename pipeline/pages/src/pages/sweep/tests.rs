use crate::pages::testing::{get, pages, published, write_run};
use axum::http::StatusCode;
use serde_json::{Value, json};
use trainyard_core::{RunId, StageKey};
use trainyard_store::{AttemptStream, Store, StoreOptions};

const RUN: &str = "20261121-041530-0000abc";

fn instances() -> Vec<Value> {
    let all = [("0.1", 1, 1.0), ("0.1", 2, 2.0), ("<b>", 1, 2.0), ("<b>", 2, 5.0)];
    let event =
        |(lr, seed, x): (&str, i32, f64)| published(&format!("rl[lr={lr},seed={seed}]"), &json!({"x": x, "y": 1}));
    all.into_iter().map(event).collect()
}

async fn filled() -> Store {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let key = "rl[lr=0.1,seed=1]";
    let started = json!({
        "at": 1, "type": "attempt_started", "stage": key, "attempt": 1,
        "digest": trainyard_core::Digest::of(key.as_bytes()), "pool": "local", "grant": {"cpus": 1},
    });
    let events: Vec<Value> = [started].into_iter().chain(instances()).collect();
    write_run(&store, RUN, "w", json!({}), &events).await;
    let points = "{\"type\":\"metric\",\"name\":\"loss\",\"step\":1,\"value\":3.5}\n\
                  {\"type\":\"metric\",\"name\":\"loss\",\"step\":2,\"value\":2.5}\n";
    let (run, stage) = (RunId(RUN.into()), StageKey(key.into()));
    store.put_chunk(&run, &stage, 1, AttemptStream::Metrics, 0, points.into()).await.unwrap();
    store
}

#[tokio::test]
async fn seeds_are_pooled_with_differences_and_curves() {
    let store = filled().await;
    let pages = pages(&store, false);
    let (status, html) = get(&pages, &format!("/runs/{RUN}/sweep")).await;
    assert_eq!(status, StatusCode::OK, "{html}");
    assert!(html.contains("1.5 ± 0.7071") && html.contains("n=2"), "{html}");
    // Differences 1 and 3 per seed: 2 ± 12.7062·√2/√2.
    assert!(html.contains("lr=&lt;b&gt;: +2 [-10.71, 14.71], 2 pairs"), "{html}");
    assert!(!html.contains("lr=<b>"), "{html}");
    let link = format!("href=\"../../runs/{RUN}/stages/rl%5Blr%3D0.1%2Cseed%3D2%5D\">seed=2</a>");
    assert!(html.contains(&link), "each pooled instance is linked: {html}");
    let (_, drawn) = get(&pages, &format!("/runs/{RUN}/sweep?curve=loss&pool=seed")).await;
    assert!(drawn.contains("<option value=\"loss\" selected>loss</option>"), "{drawn}");
    assert!(drawn.contains("<input type=\"hidden\" name=\"pool\" value=\"seed\">"), "{drawn}");
    assert!(html.contains("[lr=0.1,seed=1] from 3.5 at 1 to 2.5 at 2"), "the curve is drawn: {html}");
}

#[tokio::test]
async fn columns_rows_and_order_are_in_the_address() {
    let store = filled().await;
    let pages = pages(&store, false);
    let (_, html) = get(&pages, &format!("/runs/{RUN}/sweep?pool=none&sort=-x&metrics=x")).await;
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
    assert!(place("<td class=\"n\">5</td>") < place("<td class=\"n\">1</td>"), "{html}");
    assert!(html.contains("aria-sort=\"descending\"") && !html.contains("± "), "{html}");
    assert!(html.contains(&format!("href=\"../../runs/{RUN}/stages/rl%5Blr%3D0.1%2Cseed%3D1%5D\"")), "{html}");
    let (status, html) = get(&pages, &format!("/runs/{RUN}/sweep?baseline=none")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(html.contains("rows are lr=0.1; lr=&lt;b&gt;"), "{html}");
}

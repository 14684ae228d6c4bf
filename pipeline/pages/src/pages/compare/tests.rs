use crate::pages::testing::{get, pages, publish, table};
use axum::Router;
use axum::http::StatusCode;
use serde_json::json;
use trainyard_store::{Store, StoreOptions};
use trainyard_tables::{Message, TableBuilder, Trajectory, write_trajectories};

/// Publishes an evaluation of `sft` and `rl` on three problems; `rl` loses the first and wins the others.
async fn evaluated() -> (Router, String) {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let problems = ["<script>alert(1)</script>", "two", "three"];
    let right = [[true, false, false], [false, true, true]];
    let all = || (0..2).flat_map(|model| (0..3).map(move |problem| (model, problem)));
    let trajectory = |(model, problem): (usize, usize)| Trajectory {
        id: format!("{model}/{problem}"),
        problem_id: problems[problem].into(),
        messages: vec![
            Message::new("user", format!("Question {problem}\u{202e}?")),
            Message::new("assistant", format!("said by {model} <img src=x>\u{1b}[31m")),
        ],
        answer: Some(format!("answer {model}")),
        reward: f64::from(u8::from(right[model][problem])),
        ..Trajectory::default()
    };
    write_trajectories(&path, &all().map(trajectory).collect::<Vec<_>>()).unwrap();
    let trajectories = table(&store, &path).await;
    TableBuilder::new()
        .string("model", all().map(|(model, _)| ["sft", "rl"][model]))
        .string("problem_id", all().map(|(_, problem)| problems[problem]))
        .i64("level", all().map(|(_, problem)| problem as i64))
        .i64("sample", all().map(|_| -1))
        .bool("correct", all().map(|(model, problem)| right[model][problem]))
        .f64("reward", all().map(|(model, problem)| f64::from(u8::from(right[model][problem]))))
        .string("rollout", all().map(|(model, problem)| format!("{model}/{problem}")))
        .write(&path)
        .unwrap();
    let results = table(&store, &path).await;
    let outputs = [("results", &results), ("trajectories", &trajectories)];
    let digest = publish(&store, "evaluate", &outputs, json!({})).await;
    (pages(&store, false), format!("/artifacts/{digest}/results/compare"))
}

#[tokio::test(flavor = "multi_thread")]
async fn flips_come_first_with_the_paired_difference() {
    let (pages, path) = evaluated().await;
    let (status, html) = get(&pages, &path).await;
    assert_eq!(status, StatusCode::OK, "{html}");
    assert!(html.contains("A right, B wrong (1)") && html.contains("A wrong, B right (2)"), "{html}");
    assert!(html.contains("correct (greedy) +0.3333 ["), "the chart says it in words: {html}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !html.contains("<script>alert"), "{html}");
    assert!(html.contains("Question 0\\u{202e}?") && !html.contains("Question 1"), "{html}");
    assert!(html.contains("answer 0") && html.contains("answer 1"));
    let (_, html) = get(&pages, &format!("{path}?a=sft&b=rl&flip=wrong-right&level=2&text=")).await;
    assert!(html.contains("Question 2") && !html.contains("Question 1"), "{html}");
    let (_, html) = get(&pages, &format!("{path}?flip=wrong-right&text=question+1")).await;
    assert!(html.contains("problem=two") && !html.contains("problem=three"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_choice_the_first_verdicts_with_a_problem_are_shown() {
    let (pages, path) = evaluated().await;
    let (_, html) = get(&pages, &format!("{path}?level=1")).await;
    assert!(html.contains("<h2>A wrong, B right</h2>") && html.contains("Question 1"), "{html}");
    let (_, html) = get(&pages, &format!("{path}?level=1&flip=right-wrong")).await;
    assert!(html.contains("<h2>A right, B wrong</h2>") && html.contains("No problem has these verdicts."), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_of_one_problem_are_side_by_side() {
    let (pages, path) = evaluated().await;
    let (status, html) = get(&pages, &format!("{path}?problem=two")).await;
    assert_eq!(status, StatusCode::OK, "{html}");
    assert_eq!(html.matches("Question 1\\u{202e}?").count(), 1, "the question is shared: {html}");
    for model in ["said by 0 &lt;img src=x&gt;\\u{1b}[31m", "said by 1 &lt;img src=x&gt;\\u{1b}[31m"] {
        assert!(html.contains(model), "{html}");
    }
    assert!(!html.contains("<img") && !html.contains('\u{1b}'));
    assert!(html.contains("problem=three") && html.contains("Previous problem"), "{html}");
    assert!(html.contains("✗ </span>wrong") && html.contains("✓ </span>right"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_parameters_are_named() {
    let (pages, path) = evaluated().await;
    for (query, status, text) in [
        ("?a=base", StatusCode::NOT_FOUND, "the models are `sft`, `rl`"),
        ("?flip=up", StatusCode::BAD_REQUEST, "flips are right-wrong"),
        ("?level=hard", StatusCode::BAD_REQUEST, "not a whole number"),
        ("?problem=thre", StatusCode::NOT_FOUND, "near ids: `three`"),
        ("?with=none", StatusCode::NOT_FOUND, "names no artifact"),
    ] {
        let (found, html) = get(&pages, &format!("{path}{query}")).await;
        assert_eq!(found, status, "{query}");
        assert!(html.contains(text), "{query}: {html}");
    }
}

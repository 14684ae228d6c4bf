//! Tests unsuccessful and missing responses.

use super::server::{RecordedRequest, Server};
use super::{handle, ray, share, task};
use crate::executors::Executor;
use serde_json::json;
use trainyard_core::{Error, ErrorKind};

const EXISTS: &str = include_str!("fixtures/exists.txt");
const REFUSED: &str = include_str!("fixtures/refused.txt");

/// Returns the error of a submission if all requests get this response.
async fn submitted(status: u16, body: &'static str) -> Error {
    let server = Server::new(move |_: &RecordedRequest| (status, body.to_string())).await;
    let executor = ray(&server.address, json!({})).unwrap();
    let results = executor.submit(&[task("a", share(1)).await]).await;
    results.into_iter().next().unwrap().unwrap_err()
}

#[tokio::test]
async fn refusals_are_invalid_with_ray_message() {
    for (status, body, part) in [
        (400, REFUSED, "missing 1 required positional argument: 'entrypoint'"),
        (401, "Unauthorized: Missing authentication token", "token: env:NAME"),
        (403, "Forbidden: Invalid authentication token", "Forbidden: Invalid authentication token"),
        (302, "", "a page before it"),
    ] {
        let error = submitted(status, body).await;
        assert_eq!(error.kind, ErrorKind::Invalid, "{status}: {error}");
        assert!(error.to_string().contains(part), "{status}: {error}");
    }
}

#[tokio::test]
async fn transient_failures_are_retryable() {
    for (status, body) in [
        (500, "No available agent to submit job, please try again later."),
        (502, "<html>bad gateway</html>"),
        (503, ""),
        (504, ""),
        (429, "Max number of in-progress requests=100 reached."),
        (408, ""),
    ] {
        let error = submitted(status, body).await;
        assert_eq!(error.kind, ErrorKind::Retryable, "{status}: {error}");
    }
}

#[tokio::test]
async fn gateway_404_loses_no_job() {
    let server = Server::new(|_: &RecordedRequest| (404, "<html>no such page</html>".to_string())).await;
    let executor = ray(&server.address, json!({})).unwrap();
    let error = executor.poll(&[handle("trainyard-a")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.to_string().contains("`address` of the pool"), "{error}");
}

#[tokio::test]
async fn other_existing_job_is_an_error() {
    assert!(EXISTS.contains("Job with submission_id trainyard-ok already exists"));
    assert_eq!(submitted(500, EXISTS).await.kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn unreachable_cluster_is_retryable() {
    // No server listens on a port that was just released.
    let address = format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let executor = ray(&address, json!({})).unwrap();
    let error = executor.poll(&[handle("trainyard-a")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.to_string().contains(&address), "{error}");
    assert!(error.causes().next().is_some(), "{error:?}");
    let error = executor.cancel(&handle("trainyard-a"), crate::executors::Control::Cancel).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
}

#[tokio::test]
async fn non_dashboard_response_is_reported() {
    let server = Server::new(|_: &RecordedRequest| (200, "<html>\n<h1>Welcome</h1>\n</html>\n".to_string())).await;
    let error = ray(&server.address, json!({})).unwrap().poll(&[handle("trainyard-a")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.to_string().contains("is not a Ray dashboard"), "{error}");
}

#[tokio::test]
async fn long_responses_are_cut() {
    let long = format!("{}\nthe end {}", "x".repeat(6 << 20), "y".repeat(10_000));
    let server = Server::new(move |_: &RecordedRequest| (400, long.clone())).await;
    let error = ray(&server.address, json!({})).unwrap().poll(&[handle("trainyard-a")]).await.unwrap_err();
    assert!(error.message.len() < 1_000, "{} bytes", error.message.len());
}

#[tokio::test]
async fn token_is_sent_but_never_shown() {
    let server = Server::new(|_: &RecordedRequest| (403, "Forbidden: Invalid authentication token".to_string())).await;
    // A variable that every process has, so that the test need not modify its environment.
    let executor = ray(&server.address, json!({"token": "env:PATH"})).unwrap();
    let error = executor.poll(&[handle("trainyard-a")]).await.unwrap_err();
    let token = std::env::var("PATH").unwrap();
    let header = format!("authorization: bearer {}", token.to_lowercase());
    assert!(server.requests()[0].headers.lines().any(|line| line == header), "{:?}", server.requests());
    assert!(!format!("{error:?}").contains(&token), "{error:?}");
}

#[tokio::test]
async fn missing_token_variable_is_reported_before_any_request() {
    let server = Server::new(|_: &RecordedRequest| (200, "[]".to_string())).await;
    let executor = ray(&server.address, json!({"token": "env:TRAINYARD_NO_SUCH_VARIABLE"})).unwrap();
    let error = executor.poll(&[handle("trainyard-a")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.to_string().contains("TRAINYARD_NO_SUCH_VARIABLE"), "{error}");
    assert_eq!(server.lines(), Vec::<String>::new());
}

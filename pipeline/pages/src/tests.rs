//! Requests to the pages of an empty store: tokens, hosts, origins, headers, errors.

use crate::{PageAccess, PageAddress, PageState, router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, StatusCode, header};
use std::sync::{Arc, LazyLock};
use tower::ServiceExt as _;
use trainyard_core::clock::ManualClock;
use trainyard_store::{Store, StoreOptions};

/// 2026-11-21T04:15:30Z.
const NOW: i64 = 1_795_234_530_000;

async fn pages(may_change: bool) -> Router {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let find = move |token: &str| (token == "a-long-token").then(|| ("ada".to_string(), may_change));
    router(Arc::new(PageState {
        store,
        clock: Arc::new(ManualClock::at_millis(NOW)),
        access: PageAccess::Token(Box::new(find)),
        address: PageAddress::new("127.0.0.1:7878".parse().unwrap(), None).unwrap(),
        version: "0.0.0",
        daemon: None,
        catalogue: LazyLock::new(Box::new(crate::PageCatalogue::default)),
        queries: crate::PageQueries::default(),
    }))
}

async fn send(router: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:7878");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

const COOKIE: (&str, &str) = ("cookie", "other=1; trainyard_7878=a-long-token");

#[tokio::test]
async fn token_in_the_address_becomes_a_cookie() {
    let pages = pages(false).await;
    let denied = send(&pages, Method::GET, "/", &[]).await;
    assert_eq!(denied.status(), StatusCode::UNAUTHORIZED);
    assert!(text(denied).await.contains("it contains the token"));
    let wrong = send(&pages, Method::GET, "/?token=other", &[]).await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    let login = send(&pages, Method::GET, "/runs/r?token=a-long-token&x=1", &[]).await;
    assert_eq!(login.status(), StatusCode::SEE_OTHER);
    assert_eq!(login.headers()[header::LOCATION], "./r?x=1");
    let cookie = login.headers()[header::SET_COOKIE].to_str().unwrap();
    assert_eq!(cookie, "trainyard_7878=a-long-token; Path=/; HttpOnly; SameSite=Strict");
    let shown = send(&pages, Method::GET, "/", &[COOKIE]).await;
    assert_eq!(shown.status(), StatusCode::OK);
    assert!(text(shown).await.contains("The store has no runs yet."));
}

#[tokio::test]
async fn other_hosts_and_origins_are_denied() {
    let pages = pages(true).await;
    let rebound = Request::builder().uri("/").header("host", "evil.example").header(COOKIE.0, COOKIE.1);
    let rebound = pages.clone().oneshot(rebound.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(rebound.status(), StatusCode::FORBIDDEN);
    for (origin, status) in [
        (Some("http://evil.example"), StatusCode::FORBIDDEN),
        (Some("null"), StatusCode::FORBIDDEN),
        (None, StatusCode::FORBIDDEN),
        (Some("http://127.0.0.1:7878"), StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let headers: Vec<(&str, &str)> = origin.map(|origin| ("origin", origin)).into_iter().chain([COOKIE]).collect();
        assert_eq!(send(&pages, Method::POST, "/", &headers).await.status(), status, "{origin:?}");
    }
}

#[tokio::test]
async fn readers_change_nothing() {
    let pages = pages(false).await;
    let response = send(&pages, Method::POST, "/", &[COOKIE, ("origin", "http://127.0.0.1:7878")]).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(text(response).await.contains("ada has only read access"));
}

#[tokio::test]
async fn pages_without_a_daemon_say_where_schedules_are() {
    let pages = pages(true).await;
    let shown = text(send(&pages, Method::GET, "/", &[COOKIE]).await).await;
    assert!(!shown.contains("Schedules") && !shown.contains("Workflows"), "{shown}");
    for path in ["/schedules", "/schedules/nightly", "/workflows", "/workflows/a.yaml"] {
        let response = send(&pages, Method::GET, path, &[COOKIE]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        let text = text(response).await;
        assert!(text.contains("these pages have no daemon") && text.contains("trainyard serve"), "{text}");
    }
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let pages = pages(true).await;
    for (path, status) in [("/", 200), ("/nothing/there", 404), ("/assets/style.css", 200), ("/assets/none", 404)] {
        let response = send(&pages, Method::GET, path, &[COOKIE]).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
}

#[tokio::test]
async fn pages_are_compressed_on_request() {
    let pages = pages(true).await;
    let plain = text(send(&pages, Method::GET, "/assets/style.css", &[]).await).await;
    let response = send(&pages, Method::GET, "/assets/style.css", &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(bytes.len() * 2 < plain.len());
    let mut read = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut read).unwrap();
    assert_eq!(read, plain);
}

#[test]
fn templates_have_no_inline_script_or_style() {
    // The content security policy would block them, without a test noticing.
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![sources];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|e| e == "rs") && !entry.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&entry).unwrap();
                for inline in [" style=", " onclick=", " onload=", " onchange=", "PreEscaped("] {
                    let permitted = inline == "PreEscaped(" && entry.ends_with("layout.rs");
                    assert!(permitted || !text.contains(inline), "{} has{inline}", entry.display());
                }
            }
        }
    }
}

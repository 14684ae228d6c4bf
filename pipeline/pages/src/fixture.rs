//! Pages with a daemon, for tests: a memory store, a folder of workflow files, an operator and a viewer.

use crate::access::form_key;
use crate::{PageAccess, PageAddress, PageState, router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, header};
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tower::ServiceExt as _;
use trainyard_core::clock::ManualClock;
use trainyard_core::{Chance, Digest, KindInfo, OptionProblem, Result, RunId, StageKinds, ValidatedOptions};
use trainyard_daemon::api::ApiState;
use trainyard_daemon::api::tokens::ApiTokens;
use trainyard_daemon::control::DaemonControl;
use trainyard_daemon::daemon::{Daemon, DaemonShared};
use trainyard_daemon::effects::{DaemonEffects, DaemonNotification, RunProcessState, RunResumer, StartRunRequest};
use trainyard_daemon::folder::WorkflowFolder;
use trainyard_daemon::log::ScheduleLog;
use trainyard_daemon::schedule::event::{Definition, ScheduleEvent};
use trainyard_runtime::Interrupt;
use trainyard_spec::compile::{Compilation, CompileRequest, compile};
use trainyard_spec::site::{Site, SitePool};
use trainyard_spec::{LocalFileSystem, Schedule};
use trainyard_store::{Store, StoreOptions};

/// 2026-11-21T04:15:30Z.
pub const NOW: i64 = 1_795_234_530_000;
/// Token of a person who may make changes.
pub const OPERATOR: &str = "operator-token-1234";
/// Token of a person who may read.
pub const VIEWER: &str = "viewer-token-12345";
/// Origin of the pages.
pub const ORIGIN: &str = "http://127.0.0.1:8675";

/// Effects that record resumed runs.
#[derive(Default)]
pub struct Remembered {
    /// Runs that were resumed.
    pub resumed: Mutex<Vec<RunId>>,
}

impl DaemonEffects for Remembered {
    fn is_alive(&self, _: &str) -> Option<bool> {
        Some(false)
    }
    fn start<'a>(&'a self, _: &'a StartRunRequest) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn process(&self, _: &RunId) -> RunProcessState {
        RunProcessState::Alive
    }
    fn forget(&self, _: &RunId) {}
    fn cancel(&self, _: &RunId) {}
    fn notify(&self, _: DaemonNotification) {}
}

impl RunResumer for Remembered {
    fn resume<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<()>> {
        self.resumed.lock().unwrap().push(run.clone());
        Box::pin(async { Ok(()) })
    }
}

struct NoKinds;

impl StageKinds for NoKinds {
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
    fn kind(&self, _: &str) -> Option<&KindInfo> {
        None
    }
    fn validate_options(&self, _: &str, _: &Value) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        Err(Vec::new())
    }
}

fn compiled(path: &Path, params: &[String]) -> Result<Compilation> {
    let site = Site::of_this_machine(SitePool::local(2, 0, Vec::new()));
    let (files, working_directory, catalogue) = (&LocalFileSystem, Path::new("/"), &NoKinds);
    let tick = Some("2024-01-01T00:00:00Z");
    Ok(compile(&CompileRequest { files, path, working_directory, params, tick, catalogue, site: &site }))
}

/// Pages with a daemon.
pub struct Served {
    /// Folder of workflow files.
    pub root: TempDir,
    /// Store of the pages and the daemon.
    pub store: Store,
    /// Effects of the daemon.
    pub effects: Arc<Remembered>,
    router: Router,
    shared: Arc<DaemonShared>,
}

impl Served {
    /// Starts pages with an empty folder and an empty store.
    pub async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (effects, shared) = (Arc::new(Remembered::default()), Arc::new(DaemonShared::default()));
        let clock = Arc::new(ManualClock::at_millis(NOW));
        let api = ApiState {
            store: store.clone(),
            clock: clock.clone(),
            chance: Chance::new(1),
            daemon: shared.clone(),
            tokens: ApiTokens::default(),
            version: "0.0.0",
            changes: AtomicU64::new(0),
        };
        let control = DaemonControl {
            api: Arc::new(api),
            folder: root.path().canonicalize().unwrap(),
            home: "here".into(),
            compile: Box::new(compiled),
            resumer: effects.clone(),
        };
        let find = |token: &str| match token {
            OPERATOR => Some(("ada".to_string(), true)),
            VIEWER => Some(("bob".to_string(), false)),
            _ => None,
        };
        let router = router(Arc::new(PageState {
            store: store.clone(),
            clock,
            access: PageAccess::Token(Box::new(find)),
            address: PageAddress::new("127.0.0.1:8675".parse().unwrap(), None).unwrap(),
            version: "0.0.0",
            daemon: Some(Arc::new(control)),
            catalogue: LazyLock::new(Box::new(crate::PageCatalogue::default)),
            queries: crate::PageQueries::default(),
        }));
        Self { root, store, effects, router, shared }
    }
    /// Writes a file into the folder, and lets a daemon read the folder once.
    pub async fn file(&self, name: &str, text: &str) {
        std::fs::write(self.root.path().join(name), text).unwrap();
        let daemon = Daemon {
            store: self.store.clone(),
            clock: Arc::new(ManualClock::at_millis(NOW)),
            chance: Chance::new(2),
            name: "daemon".into(),
            home: "here".into(),
            effects: self.effects.clone(),
            compile: Box::new(|path| compiled(path, &[])),
            folder: WorkflowFolder::new(self.root.path()).unwrap(),
            shared: self.shared.clone(),
            changes: VecDeque::new(),
        };
        let interrupt = Interrupt::default();
        let waiting = async {
            for _ in 0..1_000 {
                let status = self.shared.status();
                if status.files.iter().any(|file| file.file == name) || status.broken.contains_key(name) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            interrupt.raise();
        };
        tokio::join!(daemon.run(&interrupt), waiting);
    }
    /// Defines a schedule of every hour in Paris, a day ago, with these records after it.
    pub async fn schedule(&self, name: &str, records: Vec<(i64, ScheduleEvent)>) {
        let (schedule, file) = (Schedule::cron("0 * * * *", "Europe/Paris"), format!("{name}.yaml"));
        let definition = Definition { schedule, file, home: "here".into(), texts: Digest::of(b"t") };
        let mut log = ScheduleLog::open(&self.store, name).await.unwrap();
        let first = (NOW - 86_400_000, ScheduleEvent::Defined { definition });
        for (at, event) in std::iter::once(first).chain(records) {
            log.append(at, "daemon", |_| Some(event.clone())).await.unwrap();
        }
    }
    /// Opens a page with a token; returns the status, the address of a redirect, and the text.
    pub async fn get(&self, path: &str, token: &str) -> (u16, String, String) {
        self.send(Method::GET, path, token, None, Body::empty()).await
    }
    /// Sends a form from the origin with the key of the token's holder.
    pub async fn post(&self, path: &str, token: &str, fields: &str) -> (u16, String, String) {
        let body = format!("form_key={}&{fields}", form_key(token));
        self.send(Method::POST, path, token, Some(ORIGIN), body.into()).await
    }
    /// Asserts that a form is refused without its key, with the key of another, from another origin, and to a viewer.
    pub async fn assert_guarded(&self, path: &str) {
        for (token, origin, key, part) in [
            (OPERATOR, Some(ORIGIN), String::new(), "not of this session"),
            (OPERATOR, Some(ORIGIN), form_key(VIEWER), "not of this session"),
            (OPERATOR, Some("http://evil.example"), form_key(OPERATOR), "another site"),
            (OPERATOR, None, form_key(OPERATOR), "another site"),
            (VIEWER, Some(ORIGIN), form_key(VIEWER), "bob has only read access"),
        ] {
            let body = format!("form_key={key}&from=2026-11-20&to=2026-11-20");
            let (status, _, text) = self.send(Method::POST, path, token, origin, body.into()).await;
            assert_eq!(status, 403, "{path} {origin:?}: {text}");
            assert!(text.contains(part), "{path}: {text}");
        }
    }
    async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        origin: Option<&str>,
        body: Body,
    ) -> (u16, String, String) {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8675");
        request = request.header(header::COOKIE, format!("trainyard_8675={token}"));
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let location = response.headers().get(header::LOCATION).map(|value| value.to_str().unwrap().to_string());
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, location.unwrap_or_default(), String::from_utf8(bytes.to_vec()).unwrap())
    }
}

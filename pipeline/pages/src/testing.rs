//! A run in a memory store, for the tests of pages.

use crate::{PageAccess, PageAddress, PageState, router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use std::collections::BTreeMap;
use std::sync::Arc;
use tower::ServiceExt as _;
use trainyard_core::clock::ManualClock;
use trainyard_core::event::{
    AttemptOutcome, Event, EventRecord, GrantSummary, OutputSummary, PlannedStage, RunOutcome, Selection,
};
use trainyard_core::metric::DeclaredMetrics;
use trainyard_core::{ArtifactKind, Digest, KindInfo, Placement, RunId, StageKey};
use trainyard_store::{JournalWriter, Store, StoreOptions};

/// Id of the run.
pub const RUN: &str = "20261121-041530-02a0001";
/// Time of its creation: 2026-11-21T04:15:30Z. The clock of the pages is ten seconds later.
pub const CREATED: i64 = 1_795_234_530_000;

/// A run whose journal a test writes.
pub struct TestRun {
    /// State of the pages.
    pub app: Arc<PageState>,
    router: Router,
    writer: JournalWriter,
    /// Time of the next event.
    pub at: i64,
}

impl TestRun {
    /// Creates a run of these stages, with the stages that they need.
    pub async fn create(stages: &[(&str, &[&str])]) -> Self {
        Self::create_with(stages, crate::PageCatalogue::default()).await
    }
    /// Creates a run whose pages have this catalogue.
    pub async fn create_with(stages: &[(&str, &[&str])], catalogue: crate::PageCatalogue) -> Self {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let app = Arc::new(PageState {
            store: store.clone(),
            clock: Arc::new(ManualClock::at_millis(CREATED + 10_000)),
            access: PageAccess::Open { secret: "secret".into(), may_change: false },
            address: PageAddress::new("127.0.0.1:7878".parse().unwrap(), None).unwrap(),
            version: "0.0.0",
            daemon: None,
            catalogue: std::sync::LazyLock::new(Box::new(move || catalogue)),
            queries: crate::PageQueries::default(),
        });
        // The writer is on another host, so that its last record decides whether it is alive.
        let opened = |epoch| {
            let event = Event::WriterOpened { epoch, writer: "elsewhere:1:1:1".into() };
            serde_json::to_value(EventRecord { at: CREATED, event }).unwrap()
        };
        let (writer, _) = JournalWriter::open(&store, &RunId(RUN.into()), "w", opened).await.unwrap();
        let mut test = Self { router: router(app.clone()), app, writer, at: CREATED };
        let planned = |(name, after): &(&str, &[&str])| PlannedStage {
            stage: StageKey((*name).into()),
            kind: "rl".into(),
            main_metric: Some("reward".into()),
            after: after.iter().map(|name| StageKey((*name).into())).collect(),
        };
        test.append(Event::RunCreated {
            format: 1,
            workflow: "gsm8k".into(),
            source: "workflows/gsm8k.yaml".into(),
            plan_digest: Digest::of(b"plan"),
            params: BTreeMap::from([("lr".to_string(), serde_json::json!(0.003))]),
            selection: Selection::default(),
            stages: stages.iter().map(planned).collect(),
        })
        .await;
        test
    }

    /// Appends an event.
    pub async fn append(&mut self, event: Event) {
        self.writer.append(&[EventRecord { at: self.at, event }]).await.unwrap();
    }
    /// Starts an attempt.
    pub async fn start(&mut self, stage: &str, attempt: u32, pool: &str) {
        let (stage, digest) = (StageKey(stage.into()), Digest::of(stage.as_bytes()));
        let grant = GrantSummary { cpus: 2, gpus: vec![0], ..GrantSummary::default() };
        self.append(Event::AttemptStarted { stage, attempt, digest, pool: pool.into(), grant }).await;
    }
    /// Ends an attempt and publishes its trajectories, as the stage digest of the stage's name.
    pub async fn publish(&mut self, name: &str, attempt: u32) {
        let stage = StageKey(name.into());
        let outcome = AttemptOutcome::Succeeded;
        self.append(Event::AttemptEnded { stage: stage.clone(), attempt, outcome, error: None }).await;
        let digest = Digest::of(b"rows");
        let output = OutputSummary { kind: ArtifactKind::Trajectories, digest, size: 2_048, rows: Some(64) };
        self.append(Event::Published {
            stage,
            attempt,
            digest: Digest::of(name.as_bytes()),
            generation: 0,
            reason: None,
            adopted: false,
            metrics: BTreeMap::from([("reward".to_string(), 0.5)]),
            comparisons: Vec::new(),
            outputs: BTreeMap::from([("trajectories".to_string(), output)]),
        })
        .await;
    }
    /// Ends the run.
    pub async fn finish(&mut self) {
        self.append(Event::RunFinished { outcome: RunOutcome::Succeeded }).await;
    }

    /// Requests a page.
    pub async fn response(&self, path: &str) -> Response<Body> {
        let request = Request::builder().uri(path).header("host", "127.0.0.1:7878").body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
    /// Returns the status and the text of a page.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let response = self.response(path).await;
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// Returns a stage kind with these options and families of parts.
pub fn kind(name: &'static str, options: serde_json::Value, families: Vec<&'static str>) -> KindInfo {
    KindInfo {
        name,
        version: 2,
        summary: "",
        doc: "",
        inputs: Vec::new(),
        outputs: Vec::new(),
        options: options.into(),
        placement: Placement::Process,
        all_cpus: true,
        trains: true,
        plays: true,
        example: "",
        main_metric: None,
        main_metric_with: Vec::new(),
        metrics: DeclaredMetrics::default(),
        families,
    }
}

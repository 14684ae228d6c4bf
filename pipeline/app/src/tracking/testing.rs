//! Provides test helpers that trackers share.

use super::tracker::{Point, RunStart, TrackerEvent};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::event::{AttemptOutcome, Event, EventRecord, GrantSummary, RunOutcome};
use trainyard_core::{AttemptNumber, Digest, Error, RunId, StageKey};
use trainyard_runtime::Observer;

/// Observer that records user-visible messages.
#[derive(Default)]
pub struct Notes(Mutex<Vec<String>>);

impl Notes {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Notes {
    fn event(&self, _: &EventRecord) {}
    fn message(&self, _: &StageKey, _: AttemptNumber, _: &AttemptMessage) {}
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_string());
    }
}

pub fn opened(run: &str) -> RunStart {
    RunStart {
        run: RunId(run.into()),
        workflow: "agent".into(),
        params: [("steps".to_string(), 3.into())].into(),
        resumed: false,
        at: 1_000,
    }
}

pub fn point(stage: &str, name: &str, step: u64, value: f64) -> Point {
    Point { stage: StageKey(stage.into()), attempt: 1, name: name.into(), step, value, at: 2_000 + step as i64 }
}

fn event(at: i64, event: Event) -> TrackerEvent {
    TrackerEvent::Event(EventRecord { at, event })
}

/// Returns a run of two stages, of which the second fails once and is then retried.
pub fn whole_run() -> Vec<TrackerEvent> {
    let (sft, rl) = (StageKey("sft".into()), StageKey("rl[seed=1]".into()));
    let started = |stage: &StageKey, attempt| Event::AttemptStarted {
        stage: stage.clone(),
        attempt,
        digest: Digest::of(stage.0.as_bytes()),
        pool: "gpu".into(),
        grant: GrantSummary::default(),
    };
    let ended = |stage: &StageKey, attempt, outcome, error: Option<Error>| Event::AttemptEnded {
        stage: stage.clone(),
        attempt,
        outcome,
        error,
    };
    let published = Event::Published {
        stage: sft.clone(),
        attempt: 1,
        digest: Digest::of(b"sft"),
        generation: 0,
        reason: None,
        adopted: false,
        metrics: [("accuracy".to_string(), 0.75)].into(),
        comparisons: Vec::new(),
        outputs: Default::default(),
    };
    let crash = || Some(Error::data("row 3 is empty"));
    vec![
        TrackerEvent::Opened(opened("20261123-100000-abc")),
        event(1_001, started(&sft, 1)),
        TrackerEvent::Point(point("sft", "loss", 1, 2.5)),
        TrackerEvent::Point(point("sft", "loss", 2, f64::NAN)),
        event(3_000, ended(&sft, 1, AttemptOutcome::Succeeded, None)),
        event(3_001, published),
        event(3_002, started(&rl, 1)),
        event(3_100, ended(&rl, 1, AttemptOutcome::Lost, None)),
        event(3_200, started(&rl, 2)),
        TrackerEvent::Point(point("rl[seed=1]", "reward_mean", 1, 0.5)),
        event(3_300, ended(&rl, 2, AttemptOutcome::Failed, crash())),
        event(3_301, Event::StageFailed { stage: rl, error: Error::data("row 3 is empty") }),
        event(3_400, Event::RunFinished { outcome: RunOutcome::Failed }),
    ]
}

/// A loopback server that computes responses from path and body by a function, and records its requests.
pub struct RecordingServer {
    pub url: String,
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl RecordingServer {
    pub fn start(respond: impl Fn(&str, &str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
                let (head, length) = loop {
                    let count = stream.read(&mut chunk).unwrap_or(0);
                    bytes.extend_from_slice(&chunk[..count]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if let Some(end) = text.find("\r\n\r\n") {
                        let length = text
                            .lines()
                            .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok())
                            .unwrap_or(0);
                        break (end + 4, length);
                    }
                    if count == 0 {
                        break (bytes.len(), 0);
                    }
                };
                while bytes.len() < head + length {
                    let count = stream.read(&mut chunk).unwrap_or(0);
                    if count == 0 {
                        break;
                    }
                    bytes.extend_from_slice(&chunk[..count]);
                }
                let line = String::from_utf8_lossy(&bytes[..head]).into_owned();
                let path = line.split(' ').nth(1).unwrap_or_default().to_string();
                let body = String::from_utf8_lossy(&bytes[head..]).into_owned();
                let text = respond(&path, &body);
                recorded.lock().unwrap().push((path, body));
                let length = text.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                stream.write_all(format!("{head}\r\ncontent-length: {length}\r\n\r\n{text}").as_bytes()).ok();
            }
        });
        Self { url, requests }
    }
    /// Returns path and body of every request so far.
    pub fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap().clone()
    }
}

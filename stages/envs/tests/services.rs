//! Tests tools, environments, verifiers and rewards that are user-defined services, through the bridge for Python.
//!
//! Without `python3`, each test prints that it is skipped.

mod kit;

use kit::PATIENCE;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use trainyard_core::{Error, ErrorKind};
use trainyard_envs::conformance::{AgentScript, check};
use trainyard_envs::{Environment, Episode, EpisodeStep, Outcome, ToolHost, environments};
use trainyard_tables::{EpisodeStatus, Message, Problem};

const SHOP: &str = r#"
import sys
import trainyard_bridge as ty

class Shop(ty.Environment):
    def reset(self, problem, seed):
        self.cart = []

    @ty.tool
    def add(self, item: str) -> str:
        """Puts an item into the cart."""
        if item == "nothing":
            raise LookupError("nothing is not sold")
        self.cart.append(item)
        return f"cart: {', '.join(self.cart)}"

    @ty.tool
    def pay(self):
        """Pays, which ends the visit."""
        return ty.Done(", ".join(self.cart), "thank you")

    def step(self, text):
        if text == "crash":
            raise RuntimeError("cannot talk")
        return f"You said {text!r} and have {len(self.cart)} items."

    @classmethod
    def verify(cls, problem, answer):
        return sorted(answer.split(", ")) == sorted(problem.answer.split(", "))

@ty.tool
def price(item: str) -> str:
    """Looks up what something costs."""
    return str({"apple": 3, "pear": 5}[item])

@ty.tool
def note(state: ty.State, text: str) -> str:
    """Keeps a note."""
    state.setdefault("notes", []).append(text)
    return " ".join(state["notes"])

@ty.verifier
def same_words(problem, answer):
    return answer.split() == problem.answer.split()

ty.serve(int(sys.argv[1]))
"#;

/// Program that serves on a local port and ends when dropped.
struct Served {
    folder: TempDir,
    child: Child,
    port: u16,
    host: Arc<ToolHost>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Served {
    /// Returns `None` and prints a note where Python is missing.
    fn new() -> Option<Self> {
        if Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: there is no python3");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.py"), SHOP).unwrap();
        let (child, port) = start(folder.path(), 0);
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        let host = ToolHost::with_log(1, Arc::new(move |_, line| sink.lock().unwrap().push(line.to_string())));
        Some(Self { folder, child, port, host, log })
    }
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
    fn build(&self, mut options: Value, more: Value) -> Result<Box<dyn Environment>, Error> {
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        environments::family().build(&options, &self.host)
    }
    fn environment(&self, more: Value) -> Box<dyn Environment> {
        self.build(json!({"kind": "http", "url": self.url(), "attempts": 2}), more).unwrap()
    }
    /// Kills the server and starts another one on the same port.
    fn replace(&mut self) {
        self.stop();
        (self.child, self.port) = start(self.folder.path(), self.port);
    }
    fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
    fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(folder: &Path, port: u16) -> (Child, u16) {
    let bridge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut command = Command::new("python3");
    command.args(["-B", "shop.py", &port.to_string()]).current_dir(folder).env("PYTHONPATH", bridge);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap();
    (child, port.parse().unwrap_or_else(|_| panic!("no port in {line:?}")))
}

fn problem(answer: &str) -> Problem {
    let messages = vec![Message::new("user", "Shop.")];
    Problem { id: "p".into(), messages, answer: answer.into(), verifier: "{}".into(), ..Problem::default() }
}

fn call(name: &str, arguments: Value) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
}

fn step(environment: &dyn Environment, episode: &mut dyn Episode, text: &str) -> Result<EpisodeStep, Error> {
    let mut step = episode.step(&environment.format().parse(text))?;
    while matches!(step, EpisodeStep::Pending) {
        if let Some(next) = episode.poll(PATIENCE)? {
            step = next;
        }
    }
    Ok(step)
}

/// Returns the messages that the model reads after a turn.
fn read(environment: &dyn Environment, episode: &mut dyn Episode, text: &str) -> String {
    match step(environment, episode, text).unwrap() {
        EpisodeStep::Observe(seen) => seen.messages.iter().map(|m| m.content.as_str()).collect(),
        _ => panic!("the episode does not go on after {text}"),
    }
}

fn end(environment: &dyn Environment, episode: &mut dyn Episode, text: &str) -> Outcome {
    match step(environment, episode, text).unwrap() {
        EpisodeStep::Done(outcome) => outcome,
        _ => panic!("the episode goes on after {text}"),
    }
}

#[test]
fn an_environment_over_http_passes_conformance() {
    let Some(served) = Served::new() else { return };
    let environment = served.environment(json!({}));
    assert_eq!(environment.kind(), "http");
    let turns = [
        call("add", json!({"item": "tea"})),
        "What else?".to_string(),
        call("add", json!({"item": "milk"})),
        call("pay", json!({})),
    ];
    let texts: Vec<&str> = turns.iter().map(String::as_str).collect();
    let disturbance = call("add", json!({"item": "rum"}));
    let problem = problem("milk, tea");
    check(&*environment, &AgentScript { problem: &problem, turns: &texts, disturbance: &disturbance }).unwrap();
}

#[test]
fn an_episode_outlives_the_server() {
    let Some(mut served) = Served::new() else { return };
    let environment = served.environment(json!({}));
    let mut episode = environment.start(&problem("x"), 0).unwrap();
    read(&*environment, &mut *episode, &call("add", json!({"item": "tea"})));
    served.replace();
    assert_eq!(read(&*environment, &mut *episode, &call("add", json!({"item": "milk"}))), "cart: tea, milk");
    let mut fork = episode.fork().unwrap();
    read(&*environment, &mut *fork, &call("add", json!({"item": "rum"})));
    assert_eq!(end(&*environment, &mut *episode, &call("pay", json!({}))).answer.as_deref(), Some("tea, milk"));
    assert_eq!(end(&*environment, &mut *fork, &call("pay", json!({}))).answer.as_deref(), Some("tea, milk, rum"));
}

#[test]
fn unavailable_server_makes_no_answer_wrong() {
    let Some(mut served) = Served::new() else { return };
    let environment = served.environment(json!({"attempts": 1}));
    let mut episode = environment.start(&problem("x"), 0).unwrap();
    read(&*environment, &mut *episode, &call("add", json!({"item": "tea"})));
    served.stop();
    let outcome = end(&*environment, &mut *episode, &call("pay", json!({})));
    assert_eq!((outcome.status, outcome.timed_out), (EpisodeStatus::Infrastructure, false));
    assert!(served.log().contains("cannot be reached"), "{}", served.log());
    let error = environment.verify(&problem("tea"), "tea").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
}

#[test]
fn exceptions_are_reported_like_those_of_a_program() {
    let Some(served) = Served::new() else { return };
    let environment = served.environment(json!({}));
    let mut episode = environment.start(&problem("x"), 0).unwrap();
    let text = read(&*environment, &mut *episode, &call("add", json!({"item": "nothing"})));
    assert_eq!(text, "LookupError: nothing is not sold");
    let error = step(&*environment, &mut *episode, "crash").err().unwrap();
    let causes: String = error.causes().collect();
    assert!(error.message.contains("environment `http`: RuntimeError: cannot talk"), "{error}");
    assert!(causes.contains("in step"), "{causes}");
}

#[test]
fn tools_and_verifiers_may_be_services() {
    let Some(served) = Served::new() else { return };
    let own = json!({"kind": "http", "url": served.url()});
    let options = json!({"kind": "math-problems", "tools": [own], "format": "hermes", "verifier": own});
    let environment = served.build(options, json!({})).unwrap();
    let names: Vec<String> = environment.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["price", "note"]);
    let mut episode = environment.start(&problem("a b"), 0).unwrap();
    read(&*environment, &mut *episode, &call("note", json!({"text": "one"})));
    let mut fork = episode.fork().unwrap();
    let both = call("note", json!({"text": "two"})) + &call("price", json!({"item": "pear"}));
    assert_eq!(read(&*environment, &mut *episode, &both), "one two5");
    assert_eq!(read(&*environment, &mut *fork, &call("note", json!({"text": "three"}))), "one three");
    assert_eq!(read(&*environment, &mut *fork, &call("price", json!({"item": "plum"}))), "KeyError: 'plum'");
    assert!(environment.verify(&problem("a b"), "a  b").unwrap());
    assert!(!environment.verify(&problem("a b"), "ab").unwrap());
}

#[test]
fn server_of_another_protocol_is_rejected_at_the_start() {
    let Some(served) = Served::new() else { return };
    let wrong = json!({"kind": "http", "url": served.url(), "name": "Market"});
    let error = served.build(wrong, json!({})).err().unwrap();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("choose one by the option `name`"), "{error}");
}

/// `check` builds environments, too, and must send no request.
#[test]
fn checking_options_sends_no_request() {
    let family = environments::family();
    let own = json!({"kind": "http", "url": "http://127.0.0.1:9/"});
    let options = json!({"kind": "http", "url": "http://127.0.0.1:9/", "tools": [own]});
    assert_eq!(family.check(&options), []);
    let environment = family.build(&options, &ToolHost::idle()).unwrap();
    assert!(environment.tools().is_empty() && environment.start(&problem("x"), 0).is_err());
    let wrong = json!({"kind": "http", "concurrency": 0, "tools": [{"kind": "http", "url": "h"}], "verifier":
        {"kind": "http"}});
    let pointers: Vec<String> = family.check(&wrong).into_iter().map(|p| p.pointer).collect();
    assert_eq!(pointers, ["/url", "/concurrency", "/tools/0/url", "/verifier/url"]);
}

//! The pages of the daemon: one address with the API, tokens that become cookies, and forms that start runs.

use crate::kit::{Sandbox, wait_for};
use crate::serve::{Daemon, EVERY_SECOND, ask, ask_with, free_port, show};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

/// A workflow without a schedule, whose params have a value and none.
const TRAIN: &str = "version: 1\nname: train\nparams:\n  steps: {type: int, min: 1, description: Optimizer steps.}\n  \
    mode: {type: string, default: fast, choices: [fast, slow]}\nstages:\n  \
    one: {run: 'echo \"steps ${{ params.steps }} ${{ params.mode }}\"'}\n";

/// A browser at the pages of one daemon.
struct Browser {
    port: u16,
    cookie: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// Returns the value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
    /// Returns the key of the page's forms.
    fn form_key(&self) -> &str {
        let rest = self.body.split_once("name=\"form_key\" value=\"").expect("a form").1;
        rest.split_once('"').unwrap().0
    }
}

impl Browser {
    /// Opens the address with the token, and keeps the cookie of the response.
    fn login(port: u16, token: &str) -> Self {
        let mut browser = Self { port, cookie: String::new() };
        let login = browser.get(&format!("/?token={token}"));
        assert_eq!(login.status, 303, "{}", login.body);
        assert_eq!(login.header("location"), Some("./"));
        let cookie = login.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        browser.cookie = cookie.split(';').next().unwrap().to_string();
        browser
    }
    fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\n"), "")
    }
    /// Sends a form from this origin.
    fn post(&self, path: &str, key: &str, fields: &str) -> Answer {
        let origin = format!("http://127.0.0.1:{}", self.port);
        self.post_from(&origin, path, key, fields)
    }
    fn post_from(&self, origin: &str, path: &str, key: &str, fields: &str) -> Answer {
        let head =
            format!("POST {path} HTTP/1.1\r\norigin: {origin}\r\ncontent-type: application/x-www-form-urlencoded\r\n");
        self.send(&head, &format!("form_key={key}&{fields}"))
    }
    fn send(&self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let (port, cookie, length) = (self.port, &self.cookie, body.len());
        write!(
            stream,
            "{head}host: 127.0.0.1:{port}\r\ncookie: {cookie}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_string(), body: body.to_string() }
    }
}

/// Starts a daemon with an operator and a viewer, a schedule and a workflow without one.
fn served(s: &Sandbox) -> (Daemon, u16) {
    s.write("workflows/yearly.yaml", EVERY_SECOND.replace("* * * * * *", "0 0 1 1 *"));
    s.write("workflows/train.yaml", TRAIN);
    s.write("tokens", "operator alice operator-token-1234\nviewer bob viewer-token-12345\n");
    std::fs::set_permissions(s.path("tokens"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let port = free_port();
    let daemon = Daemon::guarded(s, &["--bind", &format!("127.0.0.1:{port}"), "--token-file", "tokens"]);
    wait_for("the schedule", 60, || !show(s, "ticking").is_null());
    (daemon, port)
}

#[test]
fn forms_start_runs_and_pause_schedules_of_operators_alone() {
    let s = Sandbox::new();
    let (_daemon, port) = served(&s);
    let (alice, bob) = (Browser::login(port, "operator-token-1234"), Browser::login(port, "viewer-token-12345"));
    let file = alice.get("/workflows/train.yaml?p.steps=3");
    assert_eq!(file.status, 200, "{}", file.body);
    assert!(file.body.contains("Optimizer steps.") && file.body.contains("Stage instances: 1."), "{}", file.body);
    let key = file.form_key();
    let start = "/workflows/train.yaml/runs";
    assert_eq!(bob.post(start, key, "p.steps=3").status, 403);
    assert_eq!(alice.post(start, "other", "p.steps=3").status, 403);
    assert_eq!(alice.post_from("http://evil.example", start, key, "p.steps=3").status, 403);
    assert_eq!(alice.post(start, key, "p.steps=0").status, 400);
    let started = alice.post(start, key, "p.steps=3&p.mode=slow");
    assert_eq!(started.status, 303, "{}", started.body);
    let run = started.header("location").unwrap().split_once("started=").unwrap().1.to_string();
    let status = || s.run(&["runs", "show", &run, "--format", "json"]);
    wait_for("its run", 60, || status().code == 0 && status().json()["status"] == "succeeded");
    s.run(&["logs", &run, "one"]).code(0).prints("steps 3 slow");
    wait_for("its end in the log", 60, || bob.get("/workflows/train.yaml").body.contains("</span>succeeded</span>"));
    s.run(&["schedules"]).code(0).prints("ticking");
    assert!(show(&s, "train").is_null(), "a workflow without a schedule has none after a run");
    let schedule = alice.get("/schedules/ticking");
    let pause = "/schedules/ticking/pause";
    assert_eq!(bob.post(pause, schedule.form_key(), "").status, 403);
    assert_eq!(show(&s, "ticking")["status"], "active");
    let paused = alice.post(pause, schedule.form_key(), "why=maintenance");
    assert_eq!((paused.status, paused.header("location")), (303, Some("../../schedules/ticking")));
    assert_eq!(show(&s, "ticking")["paused"]["by"], "pages:alice");
    assert!(bob.get("/schedules/ticking").body.contains("maintenance"));
}

#[test]
fn api_and_pages_share_an_address_and_no_credentials() {
    let s = Sandbox::new();
    let (_daemon, port) = served(&s);
    let alice = Browser::login(port, "operator-token-1234");
    let nobody = Browser { port, cookie: String::new() };
    assert_eq!(nobody.get("/schedules").status, 401);
    assert_eq!(nobody.get("/assets/style.css").status, 200);
    assert!(alice.get("/").body.contains("Schedules"));
    let cookie = format!("cookie: {}\r\n", alice.cookie);
    assert_eq!(ask_with(port, "GET", "/schedules", "", &cookie).0, 401, "the API takes no cookie");
    assert_eq!(ask_with(port, "POST", "/schedules/ticking/pause", "{}", &cookie).0, 401);
    let bearer = "authorization: Bearer operator-token-1234\r\n";
    let (status, index) = ask_with(port, "GET", "/", "", bearer);
    assert_eq!((status, &index["openapi"]), (200, &"/api/v1/openapi.json".into()));
    assert_eq!(ask(port, "GET", "/health", "").0, 200);
    assert_eq!(ask_with(port, "GET", "/nothing", "", bearer).1["error"]["kind"], "not_found");
}

#[test]
fn cancelled_run_is_resumed_from_its_page() {
    let s = Sandbox::new();
    let (_daemon, port) = served(&s);
    let go = s.path("go");
    s.write(
        "workflows/slow.yaml",
        "version: 1\nname: slow\nstages:\n  one:\n    cache: false\n    \
         run: 'touch \"$GO.begun\"; while [ ! -e \"$GO\" ]; do sleep 0.1; done'\n    env: {GO: \"@GO@\"}\n"
            .replace("@GO@", &go.display().to_string()),
    );
    let alice = Browser::login(port, "operator-token-1234");
    wait_for("the file", 60, || alice.get("/workflows/slow.yaml").status == 200);
    let key = alice.get("/workflows/slow.yaml").form_key().to_string();
    let started = alice.post("/workflows/slow.yaml/runs", &key, "");
    let run = started.header("location").unwrap().split_once("started=").unwrap().1.to_string();
    wait_for("the run to begin", 60, || s.path("go.begun").exists());
    let status = || s.run(&["runs", "show", &run, "--format", "json"]).json()["status"].clone();
    assert_eq!(alice.post(&format!("/runs/{run}/cancel"), &key, "").status, 303);
    wait_for("its end", 60, || status() == "cancelled");
    s.write("go", "");
    let resumed = alice.post(&format!("/runs/{run}/resume"), &key, "");
    assert_eq!(resumed.status, 303, "{}", resumed.body);
    wait_for("its success", 60, || status() == "succeeded");
    let again = alice.post(&format!("/runs/{run}/resume"), &key, "");
    assert_eq!(again.status, 400, "a run that succeeded has no work left: {}", again.body);
    assert!(again.body.contains("nothing to resume"), "{}", again.body);
}

#[test]
fn printed_address_has_the_token_and_the_public_url() {
    let s = Sandbox::new();
    s.write("workflows/yearly.yaml", EVERY_SECOND.replace("* * * * * *", "0 0 1 1 *"));
    let port = free_port();
    let public = "https://hub.example/user/ada/proxy";
    let bind = format!("127.0.0.1:{port}");
    let args = ["serve", "--workflows", "workflows", "--bind", &bind, "--public-url", public];
    let errors = std::fs::File::create(s.path("stderr")).unwrap();
    let child = s.command(&args).stdout(std::process::Stdio::null()).stderr(errors).spawn().unwrap();
    let _daemon = Daemon(child);
    wait_for("the address", 60, || s.read("stderr").contains("pages: "));
    let token = std::fs::read_to_string(s.path(&format!("home/tokens/serve-{port}"))).unwrap();
    assert!(s.read("stderr").contains(&format!("pages: {public}/?token={}", token.trim())), "{}", s.read("stderr"));
    let browser = Browser { port, cookie: format!("trainyard_{port}={}", token.trim()) };
    wait_for("the schedule", 60, || !show(&s, "ticking").is_null());
    let key = browser.get("/schedules/ticking").form_key().to_string();
    let pause = "/schedules/ticking/pause";
    assert_eq!(browser.post_from("https://evil.example", pause, &key, "").status, 403);
    assert_eq!(browser.post_from("https://hub.example", pause, &key, "").status, 303);
    assert_eq!(show(&s, "ticking")["paused"]["by"], "pages:local");
    let wrong = ["serve", "--workflows", "workflows", "--bind", "127.0.0.1:0", "--public-url", "hub.example"];
    s.run(&wrong).code(2).says("no scheme and host");
}

#[test]
fn pages_of_a_missing_store_are_an_error() {
    let s = Sandbox::new();
    s.run(&["pages", "--pages-bind", "127.0.0.1:0"]).code(3).says("there is no store at");
}

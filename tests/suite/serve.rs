//! The daemon: schedules fire, runs outlive it, files change, and users revise their requests.

use crate::kit::{Sandbox, wait_for};
use crate::processes::signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

pub const EVERY_SECOND: &str = "version: 1\nname: ticking\nparams: {tick: {type: string}}\n\
    schedule: {cron: \"* * * * * *\", overlap: queue}\nstages:\n  one:\n    run: 'echo \"at ${{ params.tick }}\"'\n";

/// A daemon that stops with the test.
pub struct Daemon(pub Child);

impl Daemon {
    fn start(s: &Sandbox, more: &[&str]) -> Self {
        Self::guarded(s, &[more, &["--no-token"]].concat())
    }
    /// Starts a daemon whose API needs a token.
    pub fn guarded(s: &Sandbox, more: &[&str]) -> Self {
        let args = [&["serve", "--workflows", "workflows"], more].concat();
        Self(s.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
    fn quiet(s: &Sandbox) -> Self {
        Self::start(s, &["--bind", "127.0.0.1:0"])
    }
    /// Stops the daemon and returns its exit code.
    fn stop(mut self) -> i32 {
        signal("-TERM", &self.0.id().to_string());
        self.0.wait().unwrap().code().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn show(s: &Sandbox, name: &str) -> Value {
    let shown = s.run(&["schedules", "show", name, "--format", "json"]);
    if shown.code == 0 { shown.json() } else { Value::Null }
}

fn ended(s: &Sandbox, name: &str, outcome: &str) -> usize {
    let page = show(s, name);
    let recent = page["recent"].as_array().cloned().unwrap_or_default();
    recent.iter().filter(|past| past["outcome"] == outcome).count()
}

/// Sends one request; returns the status and the body as JSON.
pub fn ask(port: u16, method: &str, path: &str, body: &str) -> (u16, Value) {
    ask_with(port, method, path, body, "")
}

/// Sends one request with further lines of its head.
pub fn ask_with(port: u16, method: &str, path: &str, body: &str, head: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "{method} /api/v1{path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{head}connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}")))
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn ticks_become_runs_that_know_their_time_until_it_is_paused() {
    let s = Sandbox::new();
    s.write("workflows/ticking.yaml", EVERY_SECOND);
    let daemon = Daemon::quiet(&s);
    wait_for("two runs", 60, || ended(&s, "ticking", "succeeded") >= 2);
    let page = show(&s, "ticking");
    let past = page["recent"].as_array().unwrap().iter().find(|past| past["outcome"] == "succeeded").unwrap().clone();
    let run = past["run"].as_str().unwrap();
    s.run(&["logs", run, "one"]).code(0).prints(&format!("at {}", past["tick"].as_str().unwrap()));
    s.run(&["schedules"]).code(0).prints("ticking").prints("* * * * * * UTC").prints("active");
    s.run(&["schedules", "pause", "ticking", "--why", "enough"]).code(0).prints("starts no runs");
    wait_for("its promises to be kept", 60, || show(&s, "ticking")["waiting"].as_array().unwrap().is_empty());
    let fired = show(&s, "ticking")["fired"].clone();
    s.run(&["schedules", "show", "ticking"]).code(0).prints("paused by").prints("enough");
    assert_eq!(show(&s, "ticking")["next"], Value::Null);
    assert_eq!(daemon.stop(), 0);
    assert_eq!(show(&s, "ticking")["fired"], fired, "nothing fires during a pause");
}

#[test]
fn a_run_outlives_its_daemon_and_is_found_again() {
    let s = Sandbox::new();
    s.write(
        "workflows/slow.yaml",
        "version: 1\nname: slow\nschedule: {cron: \"0 0 1 1 *\"}\nstages:\n  one:\n    cache: false\n    \
         run: 'touch \"$GO.begun\"; while [ ! -e \"$GO\" ]; do sleep 0.1; done'\n    env: {GO: \"@GO@\"}\n"
            .replace("@GO@", &s.path("go").display().to_string()),
    );
    let mut daemon = Daemon::quiet(&s);
    wait_for("the schedule", 60, || !show(&s, "slow").is_null());
    let run = s.run(&["schedules", "trigger", "slow", "--format", "json"]).code(0).json()["run"].clone();
    wait_for("the run to begin", 60, || s.path("go.begun").exists());
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    let _second = Daemon::quiet(&s);
    s.write("go", "");
    wait_for("the end", 60, || ended(&s, "slow", "succeeded") == 1);
    let page = show(&s, "slow");
    assert_eq!(page["recent"][0]["run"], run);
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[test]
fn a_broken_file_leaves_what_was_there_in_force_and_a_removed_one_ends_it() {
    let s = Sandbox::new();
    let good = "version: 1\nname: yearly\nschedule: {cron: \"0 0 1 1 *\"}\nstages:\n  one: {uses: noop}\n";
    s.write("workflows/yearly.yaml", good);
    let port = free_port();
    let _daemon = Daemon::start(&s, &["--bind", &format!("127.0.0.1:{port}")]);
    wait_for("the schedule", 60, || !show(&s, "yearly").is_null());
    s.write("workflows/yearly.yaml", format!("{good}  two: {{uses: nop}}\n"));
    let broken = || ask(port, "GET", "/problems", "").1["broken"][0].clone();
    wait_for("the mistake to be told", 60, || broken()["name"] == "yearly.yaml");
    assert!(broken()["why"].as_str().unwrap().contains("nop"), "{}", broken());
    assert_eq!(ask(port, "GET", "/health", "").1["status"], "degraded");
    // The last valid one still runs.
    let (status, tick) = ask(port, "POST", "/schedules/yearly/trigger", "{}");
    assert_eq!(status, 200, "{tick}");
    wait_for("its run", 60, || ended(&s, "yearly", "succeeded") == 1);
    s.write("workflows/yearly.yaml", good.replace("0 0 1 1 *", "0 0 2 1 *"));
    wait_for("the new pattern", 60, || show(&s, "yearly")["cron"] == "0 0 2 1 *");
    assert_eq!(ask(port, "GET", "/health", "").1["status"], "ok");
    std::fs::remove_file(s.path("workflows/yearly.yaml")).unwrap();
    wait_for("its end", 60, || show(&s, "yearly")["status"] == "removed");
    assert_eq!(ask(port, "POST", "/schedules/yearly/trigger", "{}").0, 400);
}

#[test]
fn a_backfill_runs_every_tick_of_its_range_once() {
    let s = Sandbox::new();
    let text = EVERY_SECOND.replace("* * * * * *", "0 12 * * *");
    s.write("workflows/ticking.yaml", &text);
    let _daemon = Daemon::quiet(&s);
    wait_for("the schedule", 60, || !show(&s, "ticking").is_null());
    let range =
        ["schedules", "backfill", "ticking", "--from", "2026-03-01", "--to", "2026-03-03", "--concurrency", "2"];
    s.run(&range).code(0).prints("3 ticks");
    wait_for("the backfill", 90, || show(&s, "ticking")["backfills"][0]["status"] == "done");
    let page = show(&s, "ticking");
    assert_eq!(page["backfills"][0]["succeeded"], 3, "{page}");
    let mut ticks: Vec<&str> =
        page["recent"].as_array().unwrap().iter().map(|past| past["tick"].as_str().unwrap()).collect();
    ticks.sort_unstable();
    assert_eq!(ticks, ["2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z", "2026-03-03T12:00:00Z"]);
    s.run(&["schedules", "backfill", "ticking", "--from", "2999-01-01", "--to", "2999-01-02"]).code(2).says("no tick");
    s.run(&["schedules", "backfill", "ticking", "--cancel", "none"]).code(2).says("no backfill `none`");
}

#[test]
fn files_that_appear_start_a_run() {
    let s = Sandbox::new();
    s.write("incoming/old.csv", "1");
    let incoming = s.path("incoming").display().to_string();
    s.write(
        "workflows/arrivals.yaml",
        format!(
            "version: 1\nname: arrivals\nschedule: {{on: {{files: \"{incoming}\"}}}}\nstages:\n  one: {{uses: noop}}\n"
        ),
    );
    let _daemon = Daemon::quiet(&s);
    let log = || s.files(".trainyard/schedules/arrivals/log").len();
    wait_for("the list of what is there", 60, || log() >= 2);
    assert_eq!(show(&s, "arrivals")["fired"], 0, "what lay there before is not new");
    s.write("incoming/new.csv", "2");
    wait_for("its run", 60, || ended(&s, "arrivals", "succeeded") == 1);
    assert_eq!(show(&s, "arrivals")["fired"], 1);
}

#[test]
fn an_artifact_that_another_workflow_publishes_starts_a_run() {
    let s = Sandbox::new();
    let after = "version: 1\nname: after\nschedule: {on: {artifact: source.make.rows}}\nstages:\n  one: {uses: noop}\n";
    s.write("workflows/after.yaml", after);
    s.write(
        "source.yaml",
        "version: 1\nname: source\nparams: {text: {type: string}}\nstages:\n  make:\n    \
         run: 'echo \"${{ params.text }}\" > \"${{ outputs.rows }}\"/x'\n    outputs: {rows: files}\n",
    );
    let _daemon = Daemon::quiet(&s);
    wait_for("the schedule", 60, || !show(&s, "after").is_null());
    s.run(&["run", "source.yaml", "-p", "text=1"]).code(0);
    wait_for("its run", 60, || ended(&s, "after", "succeeded") == 1);
    s.run(&["run", "source.yaml", "-p", "text=1"]).code(0);
    s.run(&["run", "source.yaml", "-p", "text=2"]).code(0);
    wait_for("the second run", 60, || ended(&s, "after", "succeeded") == 2);
    assert_eq!(show(&s, "after")["fired"], 2, "a hit publishes nothing");
}

#[test]
fn requests_of_this_machine_need_the_token_of_a_private_file() {
    let s = Sandbox::new();
    s.write("workflows/yearly.yaml", EVERY_SECOND.replace("* * * * * *", "0 0 1 1 *"));
    let port = free_port();
    let daemon = Daemon::guarded(&s, &["--bind", &format!("127.0.0.1:{port}")]);
    let file = s.path(&format!("home/tokens/serve-{port}"));
    wait_for("the token", 60, || file.exists());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        for folder in [s.path(""), s.path("home")] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let other = Command::new("cat").arg(&file).uid(12_345).output().unwrap();
        assert!(!other.status.success() && other.stdout.is_empty(), "another user reads the token");
    }
    wait_for("the schedule", 60, || !show(&s, "ticking").is_null());
    let token = std::fs::read_to_string(&file).unwrap();
    let bearer = |token: &str| format!("authorization: Bearer {}\r\n", token.trim());
    let pause = |head: &str| ask_with(port, "POST", "/schedules/ticking/pause", "{}", head).0;
    assert_eq!((pause(""), pause(&bearer("x")), pause(&bearer(&token[1..]))), (401, 401, 401));
    assert_eq!(ask(port, "GET", "/runs", "").0, 401);
    assert_eq!(ask(port, "GET", "/health", "").0, 200, "health needs no token");
    assert_eq!(show(&s, "ticking")["status"], "active");
    assert_eq!(pause(&bearer(&token)), 200);
    assert_eq!(daemon.stop(), 0);
    assert!(!file.exists(), "the token ends with the daemon");
    s.run(&["serve", "--workflows", "workflows", "--no-token", "--token-file", "x"]).code(2).says("--no-token");
}

#[test]
fn nobody_can_be_let_in_from_the_network_without_tokens() {
    let s = Sandbox::new();
    s.write("workflows/x.yaml", EVERY_SECOND);
    s.run(&["serve", "--workflows", "workflows", "--bind", "0.0.0.0:0"]).code(2).says("--token-file");
    s.run(&["serve", "--workflows", "nowhere"]).code(2).says("nowhere");
    s.write("tokens", "operator alice short\n");
    let args = ["serve", "--workflows", "workflows", "--token-file", "tokens"];
    let told = s.run(&args).code(2);
    assert!(!told.stderr.contains("short\n"), "{}", told.stderr);
}

#[test]
fn schedules_that_are_not_there_are_named() {
    let s = Sandbox::new();
    s.run(&["schedules"]).code(0).prints("no schedules yet");
    s.run(&["schedules", "show", "nightly"]).code(2).says("there is no schedule `nightly`");
}

#[test]
fn what_a_daemon_is_installed_with_is_written_once() {
    let s = Sandbox::new();
    s.run(&["init", "--serve", "there"]).code(0).prints("trainyard.service").prints("Containerfile");
    let unit = s.read("there/trainyard.service");
    assert!(unit.contains("KillMode=process") && unit.contains("/there/workflows"), "{unit}");
    assert!(!unit.contains("@folder@") && !unit.contains("@program@"), "{unit}");
    let container = s.read("there/Containerfile");
    let user = container.lines().position(|line| line == "USER 10001:10001").expect("an unprivileged user");
    assert!(container.lines().position(|line| line.starts_with("ENTRYPOINT")) > Some(user), "{container}");
    s.run(&["init", "--serve", "there"]).code(2).says("exists already");
}

#[test]
fn progress_of_a_running_stage_and_its_schema_are_served() {
    let s = Sandbox::new();
    s.write("workflows/yearly.yaml", EVERY_SECOND.replace("* * * * * *", "0 0 0 1 1 *"));
    s.write("long.yaml", crate::progress::TRAINS);
    let port = free_port();
    let _daemon = Daemon::start(&s, &["--bind", &format!("127.0.0.1:{port}")]);
    wait_for("the schedule", 60, || !show(&s, "ticking").is_null());
    // Ends with the test, like the daemon.
    let _run = Daemon(s.command(&["run", "long.yaml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let progress = || {
        let (_, run) = ask(port, "GET", "/runs/latest", "");
        let page = run["page"].as_array().cloned().unwrap_or_default();
        page.into_iter().find(|row| row["stage"] == "sft").unwrap_or_default()["progress"].clone()
    };
    wait_for("the first steps", 120, || progress()["done"].as_u64().is_some_and(|done| done > 0));
    let now = progress();
    assert_eq!((&now["total"], &now["metric"]["name"]), (&100_000.into(), &"loss".into()), "{now}");
    let (_, schema) = ask(port, "GET", "/openapi.json", "");
    let fields = &schema["components"]["schemas"]["ProgressRecord"]["properties"];
    assert!(fields["seconds_left"].is_object(), "{fields}");
}

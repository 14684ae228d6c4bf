//! The daemon among clients and places that do not respond: ticks come on time.

use crate::kit::{Sandbox, wait_for};
use crate::serve::{Daemon, EVERY_SECOND, ask, free_port, show};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use trainyard_http_server::raise_descriptor_limit;

/// Starts the daemon with at most 1,024 open files, and with a bucket's endpoint.
fn limited_daemon(s: &Sandbox, port: u16, endpoint: &str) -> Daemon {
    let bind = format!("127.0.0.1:{port}");
    let inner = s.command(&["serve", "--workflows", "workflows", "--bind", &bind, "--no-token"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 1024; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(inner.get_current_dir().unwrap()).stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    command.envs([("AWS_ENDPOINT_URL", endpoint), ("AWS_ALLOW_HTTP", "true"), ("AWS_REGION", "us-east-1")]);
    command.envs([("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "key-of-a-dead-bucket")]);
    Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Opens connections that send half of a head.
fn half_open(port: u16, count: usize) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A connection above the limit may be closed already.
        let _ = stream.write_all(b"GET /api/v1/runs HTTP/1.1\r\nhost: local");
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn half_open_connections_and_a_dead_bucket_cost_no_tick() {
    assert!(raise_descriptor_limit() > 1_400, "this test opens 1,100 sockets; raise `ulimit -Hn`");
    let s = Sandbox::new();
    // The kernel completes connections, which nothing accepts.
    let bucket = TcpListener::bind("127.0.0.1:0").unwrap();
    s.write("workflows/ticking.yaml", EVERY_SECOND);
    for number in 0..20 {
        let on = format!("schedule: {{on: {{files: \"s3://dead-{number}/incoming\"}}}}");
        s.write(
            &format!("workflows/arrivals-{number}.yaml"),
            format!("version: 1\nname: arrivals-{number}\n{on}\nstages:\n  one: {{uses: noop}}\n"),
        );
    }
    let port = free_port();
    let _daemon = limited_daemon(&s, port, &format!("http://{}", bucket.local_addr().unwrap()));
    let fired = || show(&s, "ticking")["fired"].as_u64().unwrap_or(0);
    wait_for("the first tick", 60, || fired() >= 1);
    let clients = half_open(port, 1_100);
    let before = fired();
    wait_for("ten more ticks", 60, || fired() >= before + 10);
    assert_eq!(show(&s, "ticking")["skipped"], 0, "no tick was passed over");
    drop(clients);
    wait_for("the API", 60, || ask(port, "GET", "/health", "").0 == 200);
}

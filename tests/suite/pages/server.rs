//! Servers of pages for the tests: `trainyard pages` and `trainyard serve`.

use super::webdriver::Browser;
use crate::kit::{Sandbox, wait_for};
use crate::processes::Killed;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A server that stops with the test.
pub struct PageServer {
    _process: Killed,
    /// Address without `/` at its end.
    base: String,
    token: String,
}

impl PageServer {
    /// Starts `trainyard pages` and reads the address that it prints.
    pub fn pages(s: &Sandbox) -> Self {
        let mut command = s.command(&["pages", "--pages-bind", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let url = printed_url(&mut child);
        let (base, token) = url.split_once("/?token=").unwrap_or_else(|| panic!("no token in {url}"));
        Self { _process: Killed(child), base: base.to_string(), token: token.to_string() }
    }
    /// Starts `trainyard serve` on the folder `workflows`.
    pub fn daemon(s: &Sandbox) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let bind = format!("127.0.0.1:{port}");
        let mut command = s.command(&["serve", "--workflows", "workflows", "--bind", &bind]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { _process: Killed(child), base: format!("http://{bind}"), token: String::new() };
        let file = s.path("home").join(format!("tokens/serve-{port}"));
        wait_for("the token of the daemon", 60, || {
            server.token = std::fs::read_to_string(&file).unwrap_or_default().trim().to_string();
            !server.token.is_empty()
        });
        server
    }
    /// Returns the address of a page.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }
    /// Opens a page with the token in its address, which becomes a cookie.
    pub fn enter(&self, browser: &Browser, path: &str) {
        let separator = if path.contains('?') { '&' } else { '?' };
        browser.open(&format!("{}{separator}token={}", self.url(path), self.token));
        assert!(!browser.url().contains("token="), "the token stays in the address: {}", browser.url());
    }
    /// Opens a page with the cookie of [`PageServer::enter`].
    pub fn open(&self, browser: &Browser, path: &str) {
        browser.open(&self.url(path));
    }
}

/// Returns the first address that a program prints on stderr. The rest of its output is read and dropped, so that it
/// never waits for a full pipe.
pub fn printed_url(child: &mut Child) -> String {
    let output = BufReader::new(child.stderr.take().unwrap());
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(at) = line.find("http://") {
                let _ = send.send(line[at..].split_whitespace().next().unwrap_or_default().to_string());
            }
        }
    });
    receive.recv_timeout(Duration::from_secs(60)).expect("an address on stderr")
}

//! A client of the W3C WebDriver protocol for `chromedriver`: a headless Chromium, its elements, scripts and messages.

use crate::kit::wait_for;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Places of Chromium, of Debian's package `chromium` first.
const CHROMIUM: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/google-chrome"];
/// Program of Debian's package `chromium-driver`.
const CHROMEDRIVER: &str = "/usr/bin/chromedriver";
/// Arguments of Chromium in a container, as root and without a screen.
const ARGUMENTS: [&str; 4] = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
/// Key of an element's id in responses, a constant of the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Seconds that an element is waited for.
const PATIENCE: u64 = 20;
/// Time for a response of the driver.
const RESPONSE: Duration = Duration::from_secs(120);
/// Looks per second of what waits for the page.
const LOOKS: u64 = 10;

/// A browser that ends with the value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser. `more`: further arguments of Chromium.
    pub fn start(more: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let profile = TempDir::with_prefix("trainyard-browser-").unwrap();
        let driver = Command::new(CHROMEDRIVER)
            .args([format!("--port={port}"), "--log-level=SEVERE".to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{CHROMEDRIVER}: {e}; install chromium and chromium-driver"));
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        wait_for("chromedriver", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain(more.iter().copied()).chain([folder.as_str()]).collect();
        let chromium = CHROMIUM.into_iter().find(|path| std::path::Path::new(path).exists());
        let chromium = chromium.unwrap_or_else(|| panic!("none of {CHROMIUM:?} exists; install chromium"));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
        }}});
        let created = browser.request("POST", "/session", &wanted).unwrap_or_else(|e| panic!("no session: {e}"));
        browser.session = format!("/session/{}", created["sessionId"].as_str().unwrap());
        browser
    }
    /// Opens an address and waits until the page is loaded.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }
    /// Returns the address of the page.
    pub fn url(&self) -> String {
        self.script("return location.href", &[]).as_str().unwrap().to_string()
    }
    /// Waits for an element, for at most 20 seconds.
    #[track_caller]
    pub fn find(&self, css: &str) -> Element<'_> {
        self.find_within(css, PATIENCE)
    }
    /// Waits for an element, for at most these seconds.
    #[track_caller]
    pub fn find_within(&self, css: &str, seconds: u64) -> Element<'_> {
        let mut looks = seconds * LOOKS;
        loop {
            let found = self.request("POST", &self.path("/element"), &json!({"using": "css selector", "value": css}));
            match found {
                Ok(found) => return Element { browser: self, id: found[ELEMENT].as_str().unwrap().to_string() },
                Err(_) if looks > 0 => std::thread::sleep(Duration::from_millis(1_000 / LOOKS)),
                Err(error) => panic!("{css} on {}: {error}\n{}", self.url(), self.text("body")),
            }
            looks -= 1;
        }
    }
    /// Returns the first button with this text.
    #[track_caller]
    pub fn button(&self, text: &str) -> Element<'_> {
        let script =
            "return [...document.querySelectorAll('button')].findIndex((b) => b.innerText.trim() === arguments[0])";
        let wanted = [json!(text)];
        wait_for(&format!("a button {text:?}"), PATIENCE, || self.script(script, &wanted) != json!(-1));
        let mark = "for (const b of document.querySelectorAll('button')) \
            b.toggleAttribute('data-tested', b.innerText.trim() === arguments[0])";
        self.script(mark, &wanted);
        self.find("button[data-tested]")
    }
    /// Returns the visible text of the first element.
    #[track_caller]
    pub fn text(&self, css: &str) -> String {
        self.find(css).text()
    }
    /// Waits until the visible text of the page contains `text`, for at most these seconds.
    #[track_caller]
    pub fn wait_for_text(&self, css: &str, text: &str, seconds: u64) {
        let mut looks = seconds * LOOKS;
        let script = "const found = document.querySelector(arguments[0]); return found ? found.innerText : ''";
        loop {
            let shown = self.script(script, &[json!(css)]);
            let shown = shown.as_str().unwrap_or_default();
            if shown.contains(text) {
                return;
            }
            assert!(looks > 0, "{css} on {} lacks {text:?} after {seconds} s:\n{shown}", self.url());
            std::thread::sleep(Duration::from_millis(1_000 / LOOKS));
            looks -= 1;
        }
    }
    /// Runs a script, whose `arguments` are these, and returns what it returns.
    #[track_caller]
    pub fn script(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": arguments}))
    }
    /// Runs a script that passes its result to the last of its `arguments`.
    #[track_caller]
    pub fn async_script(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/async", &json!({"script": script, "args": arguments}))
    }
    /// Sets the size of the page, which may be smaller than a window can be.
    pub fn set_size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }
    /// Sets what the system prefers: `light` or `dark`.
    pub fn prefer_scheme(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &features);
    }
    /// Returns the errors in the console since the last call: exceptions, blocked content, failed requests.
    pub fn console_errors(&self) -> Vec<String> {
        let messages = self.post("/se/log", &json!({"type": "browser"}));
        let errors = messages.as_array().unwrap().iter().filter(|message| message["level"] == "SEVERE");
        errors.map(|message| message["message"].as_str().unwrap_or_default().to_string()).collect()
    }
    /// Writes a picture of the page into a PNG file.
    pub fn screenshot(&self, file: &std::path::Path) {
        let picture = self.request("GET", &self.path("/screenshot"), &Value::Null).unwrap();
        std::fs::write(file, base64(picture.as_str().unwrap())).unwrap();
    }
    #[track_caller]
    fn devtools(&self, command: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}));
    }
    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.session)
    }
    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", &self.path(path), body).unwrap_or_else(|e| panic!("{path} {body}: {e}"))
    }
    /// Sends a request. Returns its value, or the message of its error.
    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|e| e.to_string())?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .map_err(|e| e.to_string())?;
        let response = read_response(&stream).map_err(|e| format!("{method} {path}: {e}"))?;
        let mut value: Value = serde_json::from_slice(&response).map_err(|e| e.to_string())?;
        let value = value["value"].take();
        match value.get("error") {
            Some(error) => Err(format!("{error}: {}", value["message"].as_str().unwrap_or_default())),
            None => Ok(value),
        }
    }
}

/// Reads the body of a response. The driver may keep the connection open afterwards.
fn read_response(stream: &TcpStream) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(RESPONSE))?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.request("DELETE", &self.session, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Element of a page.
pub struct Element<'b> {
    browser: &'b Browser,
    id: String,
}

impl Element<'_> {
    /// Clicks the element.
    #[track_caller]
    pub fn click(&self) {
        self.browser.post(&format!("/element/{}/click", self.id), &json!({}));
    }
    /// Types a text. `\u{e007}` is the key Enter.
    #[track_caller]
    pub fn type_text(&self, text: &str) {
        self.browser.post(&format!("/element/{}/value", self.id), &json!({"text": text}));
    }
    /// Returns the visible text.
    #[track_caller]
    pub fn text(&self) -> String {
        let path = self.browser.path(&format!("/element/{}/text", self.id));
        let text = self.browser.request("GET", &path, &Value::Null);
        text.unwrap_or_else(|e| panic!("{e}")).as_str().unwrap_or_default().to_string()
    }
}

/// Decodes base64 with padding.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let number = four.iter().fold(0, |number, byte| number << 6 | digit(*byte));
        bytes.extend_from_slice(&number.to_be_bytes()[1..]);
    }
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    bytes.truncate(bytes.len() - padding);
    bytes
}

#[test]
fn base64_is_decoded() {
    assert_eq!(base64("aGVsbG8="), b"hello");
    assert_eq!(base64("+/8="), [0xfb, 0xff]);
    assert_eq!(base64(""), b"");
}

//! A sandbox folder with a separate store, and the binary in it.

use serde_json::Value;
use std::io::Write as _;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A folder that is removed after the test.
pub struct Sandbox {
    folder: TempDir,
    /// Store, if it is outside the folder.
    store: Option<String>,
}

/// Result of one call of the binary.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Asserts the exit code; shows the whole output if it differs.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "exit code\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }
    /// Asserts that stderr contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "stderr lacks `{text}`\n--- stderr\n{}\n--- stdout\n{}",
            self.stderr,
            self.stdout
        );
        self
    }
    /// Asserts that stdout contains a text.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(
            self.stdout.contains(text),
            "stdout lacks `{text}`\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
    /// Returns stdout and stderr.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
    /// Parses stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not JSON: {e}\n{}\n--- stderr\n{}", self.stdout, self.stderr))
    }
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: TempDir::with_prefix("trainyard-suite-").unwrap(), store: None }
    }
    /// Sets the store of the sandbox's commands.
    pub fn with_store(mut self, url: impl Into<String>) -> Self {
        self.store = Some(url.into());
        self
    }
    /// Returns the name of the folder, unique among sandboxes.
    pub fn name(&self) -> String {
        self.folder.path().file_name().unwrap().to_string_lossy().into_owned()
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    /// Returns the default store in the folder.
    pub fn store(&self) -> PathBuf {
        self.path(".trainyard")
    }
    /// Writes a file and creates its folders.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
    /// Writes a text in which `@name` is replaced by the path of that name in the sandbox.
    pub fn write_placed(&self, name: &str, text: &str) -> PathBuf {
        self.write(name, text.replace('@', &format!("{}/", self.folder.path().display())))
    }
    /// Writes values as JSON Lines.
    pub fn write_rows(&self, name: &str, rows: impl IntoIterator<Item = Value>) -> PathBuf {
        self.write(name, rows.into_iter().map(|row| row.to_string() + "\n").collect::<String>())
    }
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
    /// Reads the values of JSON Lines.
    pub fn read_rows(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
    /// Returns the lines that stages have written to the file `log`.
    pub fn log(&self) -> Vec<String> {
        std::fs::read_to_string(self.path("log")).unwrap_or_default().lines().map(str::to_string).collect()
    }
    /// Returns how often a line occurs in the file `log`.
    pub fn logged(&self, line: &str) -> usize {
        self.log().iter().filter(|found| *found == line).count()
    }
    /// Returns a command that runs the binary in this folder, with a `TRAINYARD_HOME` below it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("TRAINYARD_HOME", self.path("home"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        if let Some(url) = &self.store {
            command.args(["--store", url]);
        }
        command
    }
    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }
    /// Returns a stage of the newest run, as `runs show` describes it.
    #[track_caller]
    pub fn stage(&self, name: &str) -> Value {
        let shown = self.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
        let found = shown["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == name);
        found.unwrap_or_else(|| panic!("no stage {name} in {shown}")).clone()
    }
    /// Returns the metrics of a stage of the newest run.
    #[track_caller]
    pub fn metrics(&self, stage: &str) -> Value {
        self.stage(stage)["metrics"].take()
    }
    /// Starts the binary in the background.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
    /// Returns all files below a folder of the sandbox, relative, sorted.
    pub fn files(&self, below: &str) -> Vec<String> {
        let root = self.path(below);
        let mut found = Vec::new();
        collect(&root, &root, &mut found);
        found.sort();
        found
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if let Ok(relative) = path.strip_prefix(root) {
            found.push(relative.to_string_lossy().into_owned());
        }
    }
}

/// Waits until a condition holds, at most `seconds`.
#[track_caller]
pub fn wait_for(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    for _ in 0..seconds * 50 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("waited {seconds} s for {what}");
}

/// Reports a skipped test to the terminal directly, since the harness captures the output of tests that pass.
#[track_caller]
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", Location::caller());
}

/// Returns a file of the folder named by `TRAINYARD_TEST_DATA`. Without such a folder, reports a skip and returns
/// `None`.
#[track_caller]
pub fn real(path: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("TRAINYARD_TEST_DATA") else {
        skipped("TRAINYARD_TEST_DATA names no folder of real data");
        return None;
    };
    let found = PathBuf::from(folder).join(path);
    assert!(found.exists(), "TRAINYARD_TEST_DATA names a folder without {path}");
    Some(found)
}

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    Path::new("../..").canonicalize().unwrap()
}

//! Tests the tool `mcp` with a small server in Python that behaves and misbehaves.
//!
//! Without `python3`, each test prints that it is skipped. `TRAINYARD_TEST_MCP=FOLDER` names a folder with real servers
//! (`real.rs`).

mod hostile;
mod http;
#[path = "../kit/mod.rs"]
mod kit;
mod real;

use kit::PATIENCE;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use trainyard_core::{Error, ErrorKind};
use trainyard_envs::{Environment, EpisodeStep, Outcome, ToolHost, environments};
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason};

/// Server with its output.
struct Server {
    folder: TempDir,
    host: Arc<ToolHost>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Returns `None` and prints a note where Python is missing.
    fn new() -> Option<Self> {
        if std::process::Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: there is no python3");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.py"), include_str!("server.py")).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        let host = ToolHost::with_log(1, Arc::new(move |_, line| sink.lock().unwrap().push(line.to_string())));
        Some(Self { folder, host, log })
    }
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
    fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }
    /// Builds an environment with a server that is started with these words, and more options.
    fn build(&self, words: &[&str], more: Value) -> Result<Box<dyn Environment>, Error> {
        let mut command = vec!["python3".to_string(), self.path("server.py")];
        command.extend(words.iter().map(|word| word.to_string()));
        let mut options = json!({"kind": "mcp", "command": command});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with_tool(options, &self.host)
    }
}

/// Returns an environment with one tool and long time limits.
fn with_tool(tool: Value, host: &Arc<ToolHost>) -> Result<Box<dyn Environment>, Error> {
    let options = json!({"kind": "math-problems", "tools": [tool], "format": "hermes", "max_tool_calls": 64});
    environments::family().build(&options, host)
}

fn problem() -> Problem {
    let messages = vec![Message::new("user", "Count.")];
    Problem { id: "p".into(), messages, answer: "1".into(), verifier: "{}".into(), ..Problem::default() }
}

fn call(name: &str, text: &str) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": {"text": text}}))
}

fn step(
    environment: &dyn Environment,
    episode: &mut dyn trainyard_envs::Episode,
    text: &str,
) -> Result<EpisodeStep, Error> {
    match episode.step(&environment.format().parse(text))? {
        EpisodeStep::Pending => loop {
            if let Some(step) = episode.poll(PATIENCE)? {
                return Ok(step);
            }
        },
        step => Ok(step),
    }
}

/// Plays turns; returns the messages that the model read, and the outcome.
fn play(environment: &dyn Environment, turns: &[String]) -> (Vec<String>, Result<Outcome, Error>) {
    let mut episode = environment.start(&problem(), 0).unwrap();
    let mut read = Vec::new();
    for text in turns {
        match step(environment, &mut *episode, text) {
            Ok(EpisodeStep::Observe(seen)) => read.extend(seen.messages.into_iter().map(|m| m.content)),
            Ok(EpisodeStep::Done(outcome)) => return (read, Ok(outcome)),
            Ok(other) => panic!("no step of tools: {other:?}"),
            Err(error) => return (read, Err(error)),
        }
    }
    panic!("the episode continues: {read:?}")
}

#[test]
fn server_offers_its_tools_and_every_episode_has_a_separate_one() {
    let Some(server) = Server::new() else { return };
    let environment = server.build(&["noise"], json!({})).unwrap();
    let names: Vec<String> = environment.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "count", "fail", "die", "hang", "flood", "spew", "random", "ask"], "all pages");
    let turns = [call("count", "a") + &call("count", "b"), call("fail", "jump"), call("ask", ""), "1".into()];
    for _ in 0..2 {
        let (read, outcome) = play(&*environment, &turns);
        assert_eq!(read, ["1 a", "2 b", "cannot jump", "{\"roots\":[]}"]);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.tool_errors, outcome.status), (1, EpisodeStatus::Ok));
    }
    assert!(server.log().contains("not a message: `Welcome to the server!`"), "{}", server.log());
}

#[test]
fn forks_have_separate_servers_with_the_state_of_the_original() {
    let Some(server) = Server::new() else { return };
    let environment = server.build(&[], json!({})).unwrap();
    let mut episode = environment.start(&problem(), 0).unwrap();
    let read = |episode: &mut dyn trainyard_envs::Episode, text: &str| match step(&*environment, episode, text) {
        Ok(EpisodeStep::Observe(seen)) => seen.messages[0].content.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&mut *episode, &call("count", "a")), "1 a");
    let mut fork = episode.fork().unwrap();
    assert_eq!(read(&mut *fork, &call("count", "b")), "2 b");
    assert_eq!(read(&mut *episode, &call("count", "c")), "2 c");
}

#[test]
fn more_episodes_than_servers_wait_for_one() {
    let Some(server) = Server::new() else { return };
    let environment = server.build(&[], json!({"servers": 1, "timeout": "5s"})).unwrap();
    let mut first = environment.start(&problem(), 0).unwrap();
    assert!(matches!(step(&*environment, &mut *first, &call("count", "a")), Ok(EpisodeStep::Observe(_))));
    let mut second = environment.start(&problem(), 0).unwrap();
    let turn = environment.format().parse(&call("count", "b"));
    assert_eq!(second.step(&turn).unwrap(), EpisodeStep::Pending);
    assert_eq!(second.poll(std::time::Duration::from_millis(200)).unwrap(), None, "the only server is in use");
    // An episode that ends while it waits does not occupy a server.
    let mut third = environment.start(&problem(), 0).unwrap();
    assert_eq!(third.step(&turn).unwrap(), EpisodeStep::Pending);
    drop(third);
    drop(first);
    let Some(EpisodeStep::Observe(seen)) = second.poll(PATIENCE).unwrap() else { panic!() };
    assert_eq!(seen.messages[0].content, "1 b");
    drop(second);
    // An episode whose server hung, and one that ends while its server starts, release their servers.
    let hung = play(&*environment, &[call("hang", ""), "1".into()]).1.unwrap();
    assert_eq!(hung.status, EpisodeStatus::Infrastructure);
    let mut brief = environment.start(&problem(), 0).unwrap();
    assert_eq!(brief.step(&turn).unwrap(), EpisodeStep::Pending);
    drop(brief);
    assert_eq!(play(&*environment, &[call("count", "c"), "1".into()]).0, ["1 c"]);
}

#[test]
fn a_server_that_dies_hangs_or_floods_is_contained() {
    let Some(server) = Server::new() else { return };
    let environment = server.build(&[], json!({"timeout": "3s", "output_bytes": 100})).unwrap();
    // The next server has a new folder, so a server that dies in the first one dies again.
    let end = |turns: &[String]| play(&*environment, turns).1.unwrap();
    let lost = end(&[call("count", "a"), call("die", ""), "1".into()]);
    assert_eq!((lost.status, lost.stop, lost.timed_out), (EpisodeStatus::Infrastructure, StopReason::Error, false));
    let late = end(&[call("hang", ""), "1".into()]);
    assert_eq!((late.status, late.timed_out), (EpisodeStatus::Infrastructure, true));
    let spewing = end(&[call("spew", ""), "1".into()]);
    assert_eq!((spewing.status, spewing.stop), (EpisodeStatus::Infrastructure, StopReason::Error));
    assert!(server.log().contains("writes too many lines that are not messages"), "{}", server.log());
    let (read, outcome) = play(&*environment, &[call("flood", ""), "1".into()]);
    assert_eq!(read[0], format!("{}\n[99900 of 100000 bytes left out]", "x".repeat(100)));
    assert_eq!(outcome.unwrap().status, EpisodeStatus::Ok);
    assert!(server.log().contains("the program exited with status 3"), "{}", server.log());
}

#[test]
fn model_sees_errors_of_its_calls() {
    let Some(server) = Server::new() else { return };
    let environment = server.build(&[], json!({})).unwrap();
    let odd = "<tool_call>\n{\"name\": \"echo\", \"arguments\": {}}\n</tool_call>".to_string();
    let (read, outcome) = play(&*environment, &[odd, "1".into()]);
    assert_eq!((read[0].as_str(), outcome.unwrap().tool_errors), ("error: text is missing (code -32602)", 1));
}

#[test]
fn shared_servers_serve_all_episodes_and_calls_are_repeated_after_an_exit() {
    let Some(server) = Server::new() else { return };
    let environment = server.build(&[], json!({"session": "shared"})).unwrap();
    let turns = [call("count", "a"), call("die", ""), call("random", ""), "1".into()];
    let (read, outcome) = play(&*environment, &turns);
    assert_eq!((read[0].as_str(), read[1].as_str()), ("1 a", "survived"));
    assert_eq!(outcome.unwrap().status, EpisodeStatus::Ok);
    let (read, _) = play(&*environment, &[call("count", "b"), "1".into()]);
    assert_eq!(read, ["1 b"], "the server that died has forgotten");
    let (read, _) = play(&*environment, &[call("count", "c"), "1".into()]);
    assert_eq!(read, ["2 c"], "another episode, the same server");
}

#[test]
fn a_server_that_changes_its_tools_ends_the_stage() {
    let Some(server) = Server::new() else { return };
    let mark = server.path("mark");
    let environment = server.build(&["changes", &mark], json!({})).unwrap();
    assert_eq!(play(&*environment, &[call("echo", "x"), "1".into()]).0, ["x"], "the first server is as it was");
    let error = play(&*environment, &[call("count", "x"), "1".into()]).1.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("`echo` is missing, `count` has other parameters"), "{error}");
    let error = server.build(&["turns"], json!({"session": "shared"})).map(|environment| {
        let turns = [call("count", "x"), call("echo", "y"), call("echo", "z"), "1".into()];
        play(&*environment, &turns)
    });
    let (_, outcome) = error.unwrap();
    assert!(outcome.is_ok(), "a server that is itself again is used: {outcome:?}");
    assert!(server.log().contains("`echo` is missing"), "{}", server.log());
}

#[test]
fn only_allowed_tools_are_offered_under_their_names() {
    let Some(server) = Server::new() else { return };
    let options = json!({"allow": ["fail", "echo"], "prefix": "my_"});
    let environment = server.build(&[], options).unwrap();
    let names: Vec<String> = environment.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["my_fail", "my_echo"]);
    let (read, _) = play(&*environment, &[call("my_echo", "x") + &call("count", "y"), "1".into()]);
    assert_eq!(read[0], "x");
    assert!(read[1].starts_with("error: no tool `count`"), "{read:?}");
    let error = server.build(&[], json!({"allow": ["dance"]})).err().unwrap();
    assert!(error.message.contains("it offers no tool `dance`, only: echo, count"), "{error}");
}

#[test]
fn programs_that_are_no_server_are_rejected() {
    let Some(server) = Server::new() else { return };
    for (how, words) in [("old", "version `1999-01-01`"), ("none", "it offers no tools")] {
        let error = server.build(&[how], json!({})).err().unwrap();
        assert!(error.message.contains(words), "{error}");
    }
    let error = with_tool(json!({"kind": "mcp", "command": ["true"]}), &server.host).err().unwrap();
    assert!(error.message.contains("exited with status 0"), "{error}");
    let family = environments::family();
    let check = |tool: Value| -> Vec<String> {
        let options = json!({"kind": "math-problems", "tools": [tool], "format": "hermes"});
        family.check(&options).into_iter().map(|problem| problem.pointer).collect()
    };
    assert_eq!(check(json!({"kind": "mcp"})), ["/tools/0/command"]);
    assert_eq!(check(json!({"kind": "mcp", "command": ["a"], "url": "http://h/mcp"})), ["/tools/0/url"]);
    let wrong = json!({"kind": "mcp", "url": "h", "files": ["a"], "timeout": "soon", "servers": 0,
        "output_bytes": 1, "allow": ["a", "a"]});
    let places = ["url", "timeout", "files", "servers", "output_bytes", "allow/1"];
    assert_eq!(check(wrong), places.map(|place| format!("/tools/0/{place}")));
    assert_eq!(check(json!({"kind": "mcp", "command": ["sh", "-c", "echo started > /dev/tty"]})), [] as [&str; 0]);
}

//! Tests tools and environments that are user programs, through the bridge for Python.
//!
//! Without `python3`, each test prints that it is skipped.

mod kit;

use kit::PATIENCE;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use trainyard_core::Error;
use trainyard_core::attempt::LogLevel;
use trainyard_envs::conformance::{AgentScript, check};
use trainyard_envs::{Environment, EpisodeStep, Outcome, ToolHost, environments};
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason};

const TOOLS: &str = r#"
import os, time
import trainyard_bridge as ty

@ty.tool
def price(item: str, count: int = 1) -> str:
    """Looks up what something costs."""
    if count < 1:
        raise ValueError(f"cannot count to {count}")
    return str({"apple": 3, "pear": 5}[item] * count)

@ty.tool
def note(state: ty.State, text: str) -> str:
    """Keeps a note."""
    state.setdefault("notes", []).append(text)
    return " ".join(state["notes"])

@ty.tool
def misbehave(how: str) -> str:
    """Does what a program should not do."""
    if how == "die":
        os._exit(3)
    if how == "hang":
        time.sleep(100)
    if how == "random":
        return os.urandom(8).hex()
    return "x" * 5000

ty.run()
"#;

const SHOP: &str = r#"
import os
import trainyard_bridge as ty

class Shop(ty.Environment):
    def reset(self, problem, seed):
        if problem.id == "broken":
            raise ValueError("no such shop")
        self.cart, self.seed = [], seed

    @ty.tool
    def add(self, item: str) -> str:
        """Puts an item into the cart."""
        if item == "nothing":
            raise LookupError("nothing is not sold")
        if item == "die" and not os.path.exists("died"):
            open("died", "w").close()
            os._exit(1)
        self.cart.append(item)
        return f"cart: {', '.join(self.cart)}"

    @ty.tool
    def pay(self):
        """Pays, which ends the visit."""
        return ty.Done(", ".join(self.cart), "thank you")

    def step(self, text):
        if text == "crash":
            raise RuntimeError("cannot talk")
        if text == "bye":
            return ty.Done()
        return f"You said {text!r} and have {len(self.cart)} items."

    @classmethod
    def prompt(cls, problem):
        return f"Buy {problem.answer}."

    @classmethod
    def verify(cls, problem, answer):
        if answer == "?":
            raise ArithmeticError("cannot judge")
        return sorted(answer.split(", ")) == sorted(problem.answer.split(", "))

ty.run()
"#;

const ECHO: &str = r#"
import trainyard_bridge as ty

class Echo(ty.Environment):
    def reset(self, problem, seed):
        self.said = []
    def step(self, text):
        self.said.append(text)
        return ty.Done(self.said[0]) if text == "9" else f"{len(self.said)}"
    def fork(self):
        copy = Echo()
        copy.said = list(self.said)
        return copy

ty.run()
"#;

/// Program in a separate folder, with its output.
struct TestProgram {
    _folder: TempDir,
    path: String,
    host: Arc<ToolHost>,
    log: Arc<Mutex<Vec<(LogLevel, String)>>>,
}

impl TestProgram {
    /// Returns `None` and prints a note where Python is missing.
    fn new(text: &str) -> Option<Self> {
        if std::process::Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: there is no python3");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.py");
        std::fs::write(&path, text).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        let host =
            ToolHost::with_log(1, Arc::new(move |level, line| sink.lock().unwrap().push((level, line.to_string()))));
        Some(Self { _folder: folder, path: path.display().to_string(), host, log })
    }
    fn command(&self) -> Value {
        json!(["python3", self.path])
    }
    fn build(&self, options: &Value) -> Result<Box<dyn Environment>, Error> {
        environments::family().build(options, &self.host)
    }
    fn environment(&self, more: Value) -> Box<dyn Environment> {
        let mut options = json!({"kind": "process", "command": self.command()});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.build(&options).unwrap()
    }
    fn with_tools(&self, timeout: &str) -> Box<dyn Environment> {
        let tools = json!([{"kind": "process", "command": self.command(), "timeout": timeout}]);
        self.build(&json!({"kind": "math-problems", "tools": tools, "format": "hermes"})).unwrap()
    }
    fn log(&self) -> String {
        self.lines(|_| true)
    }
    /// Returns the lines of the log that `run` prints.
    fn warnings(&self) -> String {
        self.lines(|level| level != LogLevel::Info)
    }
    fn lines(&self, is_shown: impl Fn(LogLevel) -> bool) -> String {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(level, _)| is_shown(*level)).map(|(_, line)| format!("{line}\n")).collect()
    }
}

fn problem(answer: &str) -> Problem {
    let messages = vec![Message::new("user", "Shop.")];
    Problem { id: "p".into(), messages, answer: answer.into(), verifier: "{}".into(), ..Problem::default() }
}

fn call(name: &str, arguments: Value) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
}

/// Plays turns; returns the messages that the model read, and the outcome if the episode ended.
fn play(environment: &dyn Environment, problem: &Problem, turns: &[String]) -> (Vec<String>, Result<Outcome, Error>) {
    let mut episode = environment.start(problem, 0).unwrap();
    let mut read = Vec::new();
    for text in turns {
        let step = episode.step(&environment.format().parse(text));
        let step = match step {
            Ok(EpisodeStep::Pending) => loop {
                match episode.poll(PATIENCE).transpose() {
                    Some(step) => break step,
                    None => continue,
                }
            },
            step => step,
        };
        match step {
            Ok(EpisodeStep::Observe(seen)) => read.extend(seen.messages.into_iter().map(|m| m.content)),
            Ok(EpisodeStep::Done(outcome)) => return (read, Ok(outcome)),
            Ok(EpisodeStep::Pending | EpisodeStep::TurnRequest(_)) => panic!("still pending"),
            Err(error) => return (read, Err(error)),
        }
    }
    panic!("the episode continues: {read:?}")
}

fn conforms(environment: &dyn Environment, answer: &str, turns: &[String], disturbance: &str) {
    let problem = problem(answer);
    let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
    check(environment, &AgentScript { problem: &problem, turns: &turns, disturbance }).unwrap();
}

#[test]
fn tools_of_a_program_pass_conformance_and_keep_their_state() {
    let Some(own) = TestProgram::new(TOOLS) else { return };
    let environment = own.with_tools("30s");
    let names: Vec<String> = environment.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["price", "note", "misbehave"]);
    let turns = [
        call("note", json!({"text": "19"})),
        call("note", json!({"text": "38"})) + &call("price", json!({"item": "pear", "count": 2})),
        "#### 38".to_string(),
    ];
    conforms(&*environment, "38", &turns, &call("note", json!({"text": "other"})));
    let (read, outcome) = play(&*environment, &problem("38"), &turns);
    assert_eq!((read, outcome.unwrap().tool_calls), (vec!["19".to_string(), "19 38".into(), "10".into()], 3));
}

#[test]
fn model_sees_errors_of_its_calls() {
    let Some(own) = TestProgram::new(TOOLS) else { return };
    let environment = own.with_tools("30s");
    let wrong = [
        call("price", json!({"item": "plum"})),
        call("price", json!({"thing": "plum"})),
        call("misbehave", json!({"how": "flood"})),
    ];
    let (read, outcome) = play(&*environment, &problem("1"), &[wrong.concat(), "1".into()]);
    assert_eq!(read[0], "KeyError: 'plum'");
    assert!(read[1].starts_with("error: tool `price`: missing a required argument: 'item'"), "{read:?}");
    assert_eq!(read[2], "error: the result has 5000 bytes, but at most 2048 may be returned");
    let outcome = outcome.unwrap();
    assert_eq!((outcome.tool_errors, outcome.status), (3, EpisodeStatus::Ok));
    assert!(own.log().contains("in price") && own.log().contains("KeyError"), "the log has the traceback");
}

#[test]
fn wrong_arguments_are_counted_and_other_exceptions_are_shown_once() {
    let Some(own) = TestProgram::new(TOOLS) else { return };
    let environment = own.with_tools("30s");
    let count = |count: i64| call("price", json!({"item": "pear", "count": count}));
    let wrong = [count(0), count(-1), call("price", json!({"item": "plum"})), call("price", json!({"item": "fig"}))];
    let (read, outcome) = play(&*environment, &problem("1"), &[wrong.concat(), "1".into()]);
    assert_eq!(
        read,
        ["ValueError: cannot count to 0", "ValueError: cannot count to -1", "KeyError: 'plum'", "KeyError: 'fig'"]
    );
    assert_eq!(outcome.unwrap().tool_errors, 4);
    assert_eq!(own.log().matches("in price").count(), 4, "the log has every traceback: {}", own.log());
    assert_eq!(own.warnings().matches("in price").count(), 1, "{}", own.warnings());
    assert!(own.warnings().contains("KeyError: 'plum'"), "{}", own.warnings());
    own.host.report_exceptions();
    assert!(
        own.warnings().contains("tool price: 2 calls raised ValueError, first: cannot count to 0\n"),
        "{}",
        own.log()
    );
    assert!(own.warnings().contains("tool price: 2 calls raised KeyError, first: 'plum'\n"), "{}", own.log());
    let reported = own.warnings();
    own.host.report_exceptions();
    assert_eq!(own.warnings(), reported, "nothing new was raised");
}

#[test]
fn program_that_exits_hangs_or_cannot_be_repeated_makes_no_answer_wrong() {
    let Some(own) = TestProgram::new(TOOLS) else { return };
    let environment = own.with_tools("3s");
    let broken = |how: &str| {
        let turns = [call("misbehave", json!({"how": how})), "1".into()];
        let outcome = play(&*environment, &problem("1"), &turns).1.unwrap();
        (outcome.status, outcome.stop, outcome.timed_out)
    };
    assert_eq!(broken("die"), (EpisodeStatus::Infrastructure, StopReason::Error, false));
    assert_eq!(broken("hang"), (EpisodeStatus::Infrastructure, StopReason::Error, true));
    let format = environment.format();
    let mut episode = environment.start(&problem("1"), 0).unwrap();
    let step = |episode: &mut dyn trainyard_envs::Episode, text: &str| match episode.step(&format.parse(text)).unwrap()
    {
        EpisodeStep::Pending => episode.poll(PATIENCE).unwrap().unwrap(),
        step => step,
    };
    step(&mut *episode, &call("misbehave", json!({"how": "random"})));
    let mut fork = episode.fork().unwrap();
    let EpisodeStep::Done(outcome) = step(&mut *fork, &call("note", json!({"text": "a"}))) else { panic!() };
    assert_eq!(outcome.status, EpisodeStatus::Infrastructure);
    assert!(
        own.log().contains("operation 1 of an episode (a call of `misbehave`) returned a different result"),
        "{}",
        own.log()
    );
    let outcome = play(&*environment, &problem("1"), &["1".to_string()]).1.unwrap();
    assert_eq!(outcome.status, EpisodeStatus::Ok, "the next episodes are played");
}

#[test]
fn an_environment_is_a_class_and_passes_conformance() {
    let Some(own) = TestProgram::new(SHOP) else { return };
    let environment = own.environment(json!({}));
    let turns = [
        call("add", json!({"item": "tea"})),
        "What else?".to_string(),
        call("add", json!({"item": "milk"})),
        call("pay", json!({})),
    ];
    conforms(&*environment, "milk, tea", &turns, &call("add", json!({"item": "rum"})));
    let (read, outcome) = play(&*environment, &problem("milk, tea"), &turns);
    assert_eq!(read, ["cart: tea", "You said 'What else?' and have 1 items.", "cart: tea, milk"]);
    assert_eq!(outcome.unwrap().answer.as_deref(), Some("tea, milk"));
    let prompt = environment.prompt(&problem("milk, tea")).unwrap();
    assert!(prompt[0].content.contains("Puts an item into the cart.") && prompt[1].content == "Buy milk, tea.");
    assert!(environment.converses());
    let end = |turns: &[String]| play(&*environment, &problem("tea"), turns).1.unwrap();
    assert_eq!((end(&["bye".into()]).stop, end(&["bye".into()]).answer), (StopReason::End, None));
    let tired = vec!["hello".to_string(); 8];
    assert_eq!((end(&tired).stop, end(&tired).turns), (StopReason::Turns, 8), "turns are limited here");
}

#[test]
fn text_environment_forks_in_its_program() {
    let Some(own) = TestProgram::new(ECHO) else { return };
    let environment = own.environment(json!({"workers": 2}));
    assert!(environment.tools().is_empty());
    let turns = ["7", "8", "9"].map(String::from);
    conforms(&*environment, "7", &turns, "1");
}

#[test]
fn an_episode_outlives_its_process() {
    let Some(own) = TestProgram::new(SHOP) else { return };
    let environment = own.environment(json!({}));
    let items = ["tea", "die", "milk"].map(|item| call("add", json!({"item": item})));
    let (read, outcome) = play(&*environment, &problem("x"), &[&items[..], &[call("pay", json!({}))]].concat());
    assert_eq!(read[2], "cart: tea, die, milk");
    assert_eq!(outcome.unwrap().status, EpisodeStatus::Ok);
    assert!(own.log().contains("the program"), "{}", own.log());
}

#[test]
fn exceptions_of_an_environment_fail_the_stage_or_the_episode() {
    let Some(own) = TestProgram::new(SHOP) else { return };
    let failing = own.environment(json!({}));
    let (read, outcome) = play(&*failing, &problem("x"), &[call("add", json!({"item": "nothing"})), "crash".into()]);
    assert_eq!(read, ["LookupError: nothing is not sold"]);
    let error = outcome.unwrap_err();
    let causes: Vec<String> = error.causes().map(|c| c.to_string()).collect();
    assert!(error.message.contains("RuntimeError: cannot talk") && causes.concat().contains("in step"), "{error:?}");
    let broken = Problem { id: "broken".into(), ..problem("x") };
    let error = play(&*failing, &broken, &["hello".into()]).1.unwrap_err();
    assert!(error.message.contains("no such shop"), "{error}");
    let skipping = own.environment(json!({"on_error": "skip"}));
    for (problem, turn) in [(problem("x"), "crash"), (broken, "hello")] {
        let outcome = play(&*skipping, &problem, &[turn.into()]).1.unwrap();
        assert_eq!((outcome.status, outcome.timed_out), (EpisodeStatus::Infrastructure, false));
    }
}

#[test]
fn missing_parts_of_a_program_are_reported_at_its_start() {
    let refused = |text: &str, options: Value| {
        let own = TestProgram::new(text)?;
        let mut options = options;
        options["command"] = own.command();
        let error = own.build(&options).err().unwrap();
        Some(format!("{error} {}", error.causes().map(|c| c.to_string()).collect::<String>()))
    };
    let environment = json!({"kind": "process"});
    let Some(none) = refused("import trainyard_bridge as ty\nty.run()", environment.clone()) else { return };
    assert!(none.contains("this program has 0 environments"), "{none}");
    let returns = refused(
        &SHOP.replace("@ty.tool\n    def add(self, item: str)", "@ty.tool\n    def add(self, *item)"),
        environment,
    );
    assert!(returns.unwrap().contains("parameter `item` has no name of its own"));
    let own = TestProgram::new(SHOP).unwrap();
    let tools = json!({"kind": "word-problems", "tools": [{"kind": "process", "command": own.command()}]});
    let error = own.build(&tools).err().unwrap();
    assert!(error.message.contains("the program offers no tool"), "{error}");
}

/// `check` builds environments, too, and must start no program.
#[test]
fn checking_options_starts_no_program() {
    let family = environments::family();
    let options = json!({"kind": "process", "command": ["sh", "-c", "echo started > /dev/tty"], "tools":
        [{"kind": "process", "command": ["false"]}, {"kind": "process", "command": ["true"]}]});
    assert_eq!(family.check(&options), []);
    let environment = family.build(&options, &ToolHost::idle()).unwrap();
    assert!(environment.tools().is_empty() && environment.start(&problem("x"), 0).is_err());
    let wrong = json!({"kind": "process", "workers": 0, "timeout": "soon", "tools": [{"kind": "process"}]});
    let pointers: Vec<String> = family.check(&wrong).into_iter().map(|p| p.pointer).collect();
    assert_eq!(pointers, ["/command", "/workers", "/timeout", "/tools/0/command"]);
}

//! Implements the environments `process` and `http`, which a user program or a user-defined service implements
//! ([`super::http`]).
//!
//! Such an environment is a dialogue whose additional tools and state are those of the program, so the limits, formats
//! and counts of all dialogues apply. For a host that must start no program (`check`), it is built without the program,
//! and only its options are known.

pub mod options;
mod state;

pub use options::{CustomEnvironmentExtra, EnvironmentRole};

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{Environment, EnvironmentSetup, Episode, WithDialogue};
use crate::formats::ToolFormat;
use crate::programs::verifier::request_verdict;
use crate::programs::{CustomCodeOptions, ExceptionPolicy, ProblemItem};
use crate::tools::ToolSpec;
use crate::tools::process::{CustomProgram, CustomSession};
use serde_json::{Map, Value, json};
use state::{ProgramMessage, ProgramState, messages};
use std::sync::Arc;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_tables::{AnswerCheck, Message, Problem};

/// Role in the handshake with programs.
const ROLE: &str = "environment";

pub struct CustomEnvironment {
    kind: &'static str,
    dialogue: Arc<Dialogue>,
    /// Program; `None` if the host is idle.
    program: Option<Arc<CustomProgram>>,
    on_error: ExceptionPolicy,
}

impl CustomEnvironment {
    /// Returns the environment. Starts the program and waits for its capabilities, unless the host is idle. Errors:
    /// those of the program, and of the dialogue.
    pub fn new<P: CustomCodeOptions>(
        options: WithDialogue<CustomEnvironmentExtra<P>>,
        setup: &EnvironmentSetup,
    ) -> Result<Self> {
        let WithDialogue { extra, dialogue } = options;
        let start = || setup.host.program(&extra.peer, ROLE, &extra.name);
        let program = if setup.host.is_idle() { None } else { Some(start()?) };
        let program_tools =
            program.as_ref().map_or(&[] as &[ToolSpec], |program| program.capabilities.tools.as_slice());
        let dialogue = Dialogue::with_tools(dialogue, setup, program_tools, marked_or_last_line)?;
        Ok(Self { kind: P::KIND, dialogue, program, on_error: extra.on_error })
    }
    fn program(&self) -> Result<&Arc<CustomProgram>> {
        self.program.as_ref().ok_or_else(|| Error::bug("an environment without a running program was played"))
    }
    fn place(&self) -> String {
        format!("environment `{}`", self.kind)
    }
    /// Sends a request about a problem to the program, and waits for the result.
    fn request(&self, op: &str, problem: &Problem, body: Map<String, Value>) -> Result<Value> {
        let program = self.program()?;
        let result = program.peer.call(op, &body)?.answer();
        result
            .map(|reply| reply.value)
            .map_err(|fault| Error::from(fault).at(format!("problem `{}`", problem.id)).at(self.place()))
    }
}

impl Environment for CustomEnvironment {
    fn kind(&self) -> &'static str {
        self.kind
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.dialogue.specs()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.dialogue.format()
    }
    fn prompt(&self, problem: &Problem) -> Result<Vec<Message>> {
        if !self.program()?.capabilities.prompts {
            return Ok(self.dialogue.prompt(problem));
        }
        let body = [("problem".to_string(), problem_json(problem))].into_iter().collect();
        let result = self.request("prompt", problem, body)?;
        let prompt: Vec<ProgramMessage> = serde_json::from_value(result)
            .map_err(|e| Error::data(format!("the program did not return a list of messages: {e}")))
            .at(format!("problem `{}`", problem.id))?;
        Ok(self.dialogue.prompt(&Problem { messages: messages(&prompt), ..problem.clone() }))
    }
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let program = self.program()?;
        let keys = [("problem".to_string(), problem_json(problem)), ("seed".to_string(), json!(seed))];
        let state = ProgramState {
            session: CustomSession::new(Arc::clone(program), keys.into_iter().collect()),
            max_bytes: self.dialogue.options().limits.output_bytes,
            steps: program.capabilities.steps,
            on_error: self.on_error,
            label: self.place(),
            replies_seen: 0,
        };
        self.dialogue.start_in(Box::new(state), seed)
    }
    fn max_turns(&self) -> u32 {
        self.dialogue.options().max_turns
    }
    fn converses(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.capabilities.steps)
    }
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        self.check_answer(problem, answer).map(|check| check.correct)
    }
    /// Checks an answer by the program or, if the program judges no answers or the options name a verifier, by the
    /// dialogue.
    fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        // An option that names a verifier takes precedence over the program.
        let program = self.program()?;
        if !program.capabilities.verifies || self.dialogue.options().verifier.is_some() {
            return self.dialogue.check_answer(problem, answer);
        }
        let correct = request_verdict(&*program.peer, problem, answer).at(self.place())?;
        Ok(AnswerCheck::whole(&problem.answer, answer, self.kind, correct))
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        self.dialogue.read_answer(text)
    }
}

/// Returns a problem as programs see it.
fn problem_json(problem: &Problem) -> Value {
    serde_json::to_value(ProblemItem::new(problem)).unwrap_or_default()
}

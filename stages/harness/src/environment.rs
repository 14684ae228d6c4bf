//! Implements the environment: it runs programs as episodes, and one server for all of them.

use crate::address::{parse_bind, url};
use crate::episode::{HarnessSettings, ProgramEpisode};
use crate::options::HarnessOptions;
use crate::start::{ModelEndpoint, ProgramStarter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_api::PartOptions as _;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, Result, SystemClock};
use trainyard_envs::environments::EnvironmentSetup;
use trainyard_envs::programs::CustomVerifier;
use trainyard_envs::verifiers::Extraction;
use trainyard_envs::{Environment, Episode, ToolFormat, ToolSpec};
use trainyard_model_api::{ModelApiServer, ModelApiSettings, random_token};
use trainyard_process::ProgramOptions;
use trainyard_tables::{AnswerCheck, Message, Problem};

/// Maximum open connections of a server that the network reaches.
const MAX_CONNECTIONS: usize = 4096;
/// Random characters of an episode's path.
const PATH_LENGTH: usize = 32;

pub struct Harness {
    options: HarnessOptions,
    settings: Arc<HarnessSettings>,
    /// Format that the options name, for demonstrations. Each request has its own tools and format.
    format: Box<dyn ToolFormat>,
    verifier: Option<CustomVerifier>,
    starter: ProgramStarter,
    /// Whether only this machine reaches the server.
    is_local: bool,
    /// Server of all episodes; it starts with the first episode.
    server: Mutex<Option<Arc<ModelApiServer>>>,
    episodes: AtomicU64,
}

impl Harness {
    /// Creates the environment without starting a process. Errors: invalid (options).
    pub fn new(options: HarnessOptions, setup: &EnvironmentSetup) -> Result<Self> {
        let program = ProgramOptions { command: options.command.clone(), ..ProgramOptions::default() };
        let settings = HarnessSettings {
            toolbox: Arc::clone(&setup.toolbox),
            format: options.format.clone(),
            describe: options.describe_tools,
            timeout: options.time()?,
            on_failure: options.on_failure,
            place: format!("environment `harness` ({})", program.shown()),
            router: Arc::default(),
            log: setup.host.log(),
            read_answer: trainyard_envs::environments::marked_or_last_line,
        };
        let log = setup.host.log();
        let starter = ProgramStarter::new(options.clone(), log.clone(), settings.place.clone());
        let is_local = parse_bind(&options.bind)?.ip().is_loopback() && options.advertised().is_empty();
        let verifier = options.verifier.clone().map(|options| CustomVerifier::new(options, setup.host.secrets(), log));
        // The tools of requests determine their formats. This format writes demonstrations, which use a calculator if
        // the format requires a tool.
        let format = setup.toolbox.format(&options.format, &[]);
        let format = match format {
            Ok(format) => format,
            Err(_) => setup.toolbox.format(&options.format, &setup.toolbox.tool("calculator")?.specs())?,
        };
        let (server, episodes) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self { options, settings: Arc::new(settings), format, verifier, starter, is_local, server, episodes })
    }
    fn server(&self) -> Result<Arc<ModelApiServer>> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*server {
            return Ok(Arc::clone(running));
        }
        let mut settings = ModelApiSettings::new(Arc::new(SystemClock::new()), Chance::new(0).child("harness", &[]));
        settings.handler_has_keys = true;
        // On loopback only programs of this stage connect, and `max_running` limits their number.
        settings.limits.connections = if self.is_local { usize::MAX } else { MAX_CONNECTIONS };
        let address = parse_bind(&self.options.bind)?;
        let running = Arc::new(ModelApiServer::start(address, self.settings.router.clone(), settings)?);
        Ok(Arc::clone(server.insert(running)))
    }
}

impl Environment for Harness {
    fn kind(&self) -> &'static str {
        HarnessOptions::KIND
    }
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn format(&self) -> &dyn ToolFormat {
        &*self.format
    }
    fn prompts(&self) -> bool {
        false
    }
    fn prompt(&self, _: &Problem) -> Result<Vec<Message>> {
        Err(Error::bug("the program of a harness writes the prompt of an episode"))
    }
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let server = self.server()?;
        let number = self.episodes.fetch_add(1, Ordering::Relaxed);
        // Neither follows from the seed, so that no other user of this machine can compute them.
        let (key, name) = (random_token()?, random_token()?);
        let base = format!("/e/{number}-{}", &name.reveal()[..PATH_LENGTH]);
        let queue = self.settings.router.add(&base, key.clone());
        let url = format!("{}{base}", url(server.address(), self.options.advertised()));
        let program = self.starter.start(problem, seed, &ModelEndpoint { url, key });
        let program = program.at(&self.settings.place).inspect_err(|_| self.settings.router.remove(&base))?;
        Ok(Box::new(ProgramEpisode::new(Arc::clone(&self.settings), base, queue, program)))
    }
    fn max_turns(&self) -> u32 {
        self.options.max_turns
    }
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        self.check_answer(problem, answer).map(|check| check.correct)
    }
    fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        match &self.verifier {
            Some(verifier) => verifier.check_answer(problem, answer),
            None => self.settings.toolbox.check_answer(problem, Extraction::default(), answer),
        }
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        (self.settings.read_answer)(text)
    }
}

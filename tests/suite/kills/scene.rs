//! One round: a run, kills during it, and the same command again until it ends.

use super::Tally;
use super::processes::{Marked, kill};
use super::server::Server;
use crate::kit::Sandbox;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Clock as _, SystemClock};

/// Name of the workflow file in a sandbox.
pub const WORKFLOW: &str = "workflow.yaml";
/// Timeout of a round. An undisturbed run takes seconds.
const LIMIT: Duration = Duration::from_secs(300);
/// Exit code of a command that could not reach its store.
const UNREACHABLE: i32 = 3;

pub struct Place<'a> {
    pub sandbox: &'a Sandbox,
    /// URL of the store, if it is in a bucket.
    store: Option<String>,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Place<'a> {
    /// Prepares a sandbox with workflow and site, whose store is on the server if there is one.
    pub fn new(sandbox: &'a Sandbox, seed: u64, server: Option<&Server>) -> Self {
        sandbox.write(WORKFLOW, include_str!("workflow.yaml"));
        let orphans = if seed.is_multiple_of(2) { "stop" } else { "keep" };
        let site = format!("version: 1\npools:\n  - {{name: here, with: {{orphans: {orphans}}}}}\n");
        sandbox.write("trainyard.yaml", site);
        let mut environment = vec![];
        for (name, folder) in [("KILLS_MARKS", "marks"), ("TMPDIR", "tmp")] {
            std::fs::create_dir(sandbox.path(folder)).unwrap();
            environment.push((name, sandbox.path(folder).display().to_string()));
        }
        environment.extend(server.iter().flat_map(|server| server.environment()));
        Self { sandbox, store: server.map(|server| server.store(&sandbox.name())), environment }
    }
    /// Returns the program's command in this place.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(url) = &self.store {
            command.args(["--store", url]);
        }
        command
    }
    /// Returns the folder of machine-wide files.
    pub fn home(&self) -> PathBuf {
        self.sandbox.path("home")
    }
}

enum Victim {
    Engine,
    Attempt,
    /// Engine, attempts and all their processes, as when a machine loses power.
    Machine,
    Server,
}

/// State of a round. Times are those of a monotonic clock.
pub struct Scene<'a> {
    place: &'a Place<'a>,
    server: Option<&'a mut Server>,
    tally: &'a mut Tally,
    marked: Marked,
    draws: PhiloxRng,
    clock: SystemClock,
    engine: Option<Child>,
    /// Time at which the command is repeated, and the server restarted, if they are down.
    engine_at: Duration,
    server_at: Duration,
    /// Next victims, killed as soon as one exists after the time.
    victims: Vec<Victim>,
    kill_at: Duration,
    starts: u32,
}

impl<'a> Scene<'a> {
    pub fn new(place: &'a Place<'a>, seed: u64, server: Option<&'a mut Server>, tally: &'a mut Tally) -> Self {
        let clock = SystemClock::new();
        let now = clock.monotonic();
        let mut scene = Self {
            marked: Marked::new(&place.home()),
            place,
            draws: Chance::new(seed).at("kills", &[]),
            clock,
            engine: None,
            engine_at: now,
            server_at: now,
            victims: Vec::new(),
            kill_at: now,
            starts: 0,
            server,
            tally,
        };
        scene.victims = (0..scene.draws.between(2, 6)).map(|_| scene.draw_victim()).collect();
        scene.kill_at = now + scene.pause(2_500);
        scene
    }

    fn draw_victim(&mut self) -> Victim {
        let server = if self.server.is_some() { 3.0 } else { 0.0 };
        match self.draws.weighted(&[4.0, 4.0, 1.0, server]) {
            Some(1) => Victim::Attempt,
            Some(2) => Victim::Machine,
            Some(3) => Victim::Server,
            _ => Victim::Engine,
        }
    }

    /// Plays the round until a command has succeeded and the server responds.
    pub fn play(mut self) {
        let end = self.clock.monotonic() + LIMIT;
        while !self.has_ended() {
            let now = self.clock.monotonic();
            if now > end {
                panic!("the run did not end within {LIMIT:?}\n{}", self.said());
            }
            if self.engine.is_none() && now >= self.engine_at {
                self.start_engine();
            }
            if let Some(server) = self.server.as_mut().filter(|_| now >= self.server_at) {
                server.start();
            }
            if now >= self.kill_at {
                self.strike(now);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(server) = self.server.as_mut() {
            server.start();
            server.wait();
        }
    }

    /// Returns a random pause of at most this many milliseconds; short ones are more likely.
    fn pause(&mut self, most: u64) -> Duration {
        Duration::from_millis((most as f64 * self.draws.uniform().powi(2)) as u64)
    }

    fn start_engine(&mut self) {
        let log = File::options().create(true).append(true).open(self.place.sandbox.path("said")).unwrap();
        let mut command = self.place.command(&["run", WORKFLOW]);
        self.engine = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        self.tally.resumes += u32::from(self.starts > 0);
        self.starts += 1;
    }

    /// Whether the command succeeded. A command that could not reach its store is repeated, as a user would.
    fn has_ended(&mut self) -> bool {
        let Some(status) = self.engine.as_mut().and_then(|engine| engine.try_wait().unwrap()) else { return false };
        match status.code() {
            Some(0) => return true,
            Some(UNREACHABLE) if self.server.is_some() => {
                self.engine = None;
                self.engine_at = self.clock.monotonic() + Duration::from_secs(1);
            }
            _ => panic!("the command ended with {status}\n{}", self.said()),
        }
        false
    }

    /// Kills the next victim, if it exists.
    fn strike(&mut self, now: Duration) {
        let killed = match self.victims.last() {
            Some(Victim::Engine) => self.kill_engine(now),
            Some(Victim::Attempt) => self.kill_attempt(),
            Some(Victim::Machine) => self.kill_machine(now),
            Some(Victim::Server) => self.kill_server(now),
            None => return,
        };
        if killed {
            self.victims.pop();
            self.kill_at = now + self.pause(2_500);
        }
    }

    fn kill_engine(&mut self, now: Duration) -> bool {
        let Some(mut engine) = self.engine.take() else { return false };
        engine.kill().unwrap();
        engine.wait().unwrap();
        self.tally.engines += 1;
        self.engine_at = now + self.pause(1_500);
        true
    }

    fn kill_attempt(&mut self) -> bool {
        let attempts = self.marked.attempts();
        if attempts.is_empty() {
            return false;
        }
        kill(&[*self.draws.choose(&attempts)]);
        self.tally.attempts += 1;
        true
    }

    fn kill_machine(&mut self, now: Duration) -> bool {
        if self.engine.is_none() {
            return false;
        }
        self.tally.attempts += self.marked.attempts().len() as u32;
        kill(&self.marked.all());
        self.kill_engine(now)
    }

    fn kill_server(&mut self, now: Duration) -> bool {
        let Some(server) = self.server.as_mut().filter(|server| server.lives()) else { return false };
        server.kill();
        self.tally.servers += 1;
        self.server_at = now + self.pause(2_000);
        true
    }

    fn said(&self) -> String {
        self.place.sandbox.read("said")
    }
}

impl Drop for Scene<'_> {
    /// Stops all processes of a round that failed.
    fn drop(&mut self) {
        if let Some(engine) = self.engine.as_mut().filter(|_| std::thread::panicking()) {
            let _ = engine.kill();
            let _ = engine.wait();
            kill(&self.marked.all());
        }
    }
}

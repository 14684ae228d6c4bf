//! Plays scripted episodes in the real environment.
//!
//! A demonstration must look exactly like a rollout, and its tool results must be those that the tool returned. Many
//! episodes are in flight at once, because tools in worker processes take calls in batches. An episode whose own call
//! hit its time limit is returned as timed out, because its script would do so on every attempt. An episode that is
//! lost to infrastructure fails the stage, which is then retried.

use std::collections::VecDeque;
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_envs::environments::ScriptedTurn;
use trainyard_envs::{AgentTurnRequest, Environment, Episode, EpisodeStep, Outcome};
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason, Trajectory};

/// Number of episodes in flight; bounds memory and changes no result.
const IN_FLIGHT: usize = 256;

/// One episode to play.
#[derive(Debug, Clone)]
pub struct EpisodeScript<'a> {
    pub id: String,
    /// Problem to solve.
    pub problem: &'a Problem,
    /// The agent's turns.
    pub turns: Vec<ScriptedTurn>,
    pub seed: u64,
}

/// A played episode.
#[derive(Debug, Clone)]
pub struct ScriptedResult {
    /// Record of the episode.
    pub trajectory: Trajectory,
    /// Number of turns taken, fewer than in the script if the environment ended the episode early.
    pub turns: usize,
    /// Whether a call hit its wall-clock limit and ended the episode. On another machine it might not, so do not
    /// publish it.
    pub timed_out: bool,
}

/// Plays all scripts and returns the episodes in the order of the scripts. `progress` gets the number of finished
/// episodes and may stop the method. Errors: retryable, if an episode is lost to infrastructure; those of the
/// environment.
pub fn play(
    environment: &dyn Environment,
    scripts: &[EpisodeScript<'_>],
    mut progress: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<ScriptedResult>> {
    let mut played: Vec<ScriptedResult> = Vec::with_capacity(scripts.len());
    let mut waiting: VecDeque<ScriptedEpisode<'_>> = VecDeque::new();
    let mut next = 0;
    while played.len() < scripts.len() {
        while next < scripts.len() && waiting.len() < IN_FLIGHT {
            waiting.push_back(ScriptedEpisode::start(environment, &scripts[next])?);
            next += 1;
        }
        // Advance all episodes before waiting for the first, so that the tools always have a batch.
        let Some(mut game) = waiting.pop_front() else {
            return Err(Error::bug("no episode in flight though some are unfinished"));
        };
        while game.outcome.is_none() {
            game.wait(Duration::from_secs(1))?;
            for other in &mut waiting {
                other.wait(Duration::ZERO)?;
            }
        }
        played.push(game.finish(environment)?);
        if played.len().is_multiple_of(IN_FLIGHT) {
            progress(played.len())?;
        }
    }
    progress(played.len())?;
    Ok(played)
}

struct ScriptedEpisode<'a> {
    script: &'a EpisodeScript<'a>,
    episode: Box<dyn Episode>,
    messages: Vec<Message>,
    /// Tools for a template to describe, where a program keeps the conversation.
    tools: Option<String>,
    turns: usize,
    tool_calls: u32,
    tool_errors: u32,
    outcome: Option<Outcome>,
    format: &'a dyn trainyard_envs::ToolFormat,
}

impl<'a> ScriptedEpisode<'a> {
    fn start(environment: &'a dyn Environment, script: &'a EpisodeScript<'a>) -> Result<Self> {
        if script.turns.is_empty() {
            return Err(Error::bug(format!("script `{}` has no turn", script.id)));
        }
        let messages = if environment.prompts() { environment.prompt(script.problem)? } else { Vec::new() };
        let mut game = Self {
            script,
            episode: environment.start(script.problem, script.seed)?,
            messages,
            tools: None,
            turns: 0,
            tool_calls: 0,
            tool_errors: 0,
            outcome: None,
            format: environment.format(),
        };
        if environment.prompts() {
            game.take_turn()?;
        }
        Ok(game)
    }

    fn take_turn(&mut self) -> Result<()> {
        let Some(scripted) = self.script.turns.get(self.turns) else {
            // The environment waits for another turn: it did not parse the last one as an answer.
            self.outcome = Some(Outcome { stop: StopReason::End, ..self.counted() });
            return Ok(());
        };
        let last_result = self.messages.iter().rev().find(|m| m.role == "tool").map_or("", |m| &m.content);
        let text = scripted.text(self.format, last_result);
        let turn = self.episode.read(&text).map_or_else(|| self.format.parse(&text), |read| read.turn);
        self.messages.push(turn.message());
        self.turns += 1;
        let step = self.episode.step(&turn)?;
        self.take(step)
    }

    fn take(&mut self, step: EpisodeStep) -> Result<()> {
        match step {
            EpisodeStep::Pending => Ok(()),
            EpisodeStep::Observe(observation) => {
                self.tool_calls += observation.tool_calls;
                self.tool_errors += observation.tool_errors;
                self.messages.extend(observation.messages);
                self.take_turn()
            }
            // The record shows the input of the model before its turn, and the agent's own turns as they were written.
            EpisodeStep::TurnRequest(AgentTurnRequest { form: Some(form), .. }) => {
                let error = Error::invalid("the turns of a demonstration are written in advance, so they take no form");
                let help = "demonstrate with a program that leaves the form of responses free";
                let step = self.episode.refuse(form.error(error.help(help)))?;
                self.take(step)
            }
            EpisodeStep::TurnRequest(request) => {
                self.messages = program_messages(&self.messages, &request)?;
                self.tools = request.tools;
                self.take_turn()
            }
            EpisodeStep::Done(outcome) => {
                self.outcome = Some(outcome);
                Ok(())
            }
        }
    }

    /// Returns the counts of an unfinished episode.
    fn counted(&self) -> Outcome {
        Outcome {
            turns: self.turns as u32,
            tool_calls: self.tool_calls,
            tool_errors: self.tool_errors,
            ..Outcome::default()
        }
    }

    fn wait(&mut self, wait: Duration) -> Result<()> {
        if self.outcome.is_none()
            && let Some(step) = self.episode.poll(wait)?
        {
            self.take(step)?;
        }
        Ok(())
    }

    fn finish(self, environment: &dyn Environment) -> Result<ScriptedResult> {
        let outcome = self.outcome.ok_or_else(|| Error::bug("an unfinished episode was finished"))?;
        if outcome.status == EpisodeStatus::Infrastructure && !outcome.timed_out {
            return Err(Error::retryable(format!(
                "episode `{}` was lost to an infrastructure failure",
                self.script.id
            )));
        }
        let problem = self.script.problem;
        let check = environment.check_outcome(problem, &outcome)?;
        let reward = f64::from(u8::from(check.correct));
        let trajectory = Trajectory {
            id: self.script.id.clone(),
            problem_id: problem.id.clone(),
            messages: self.messages,
            tools: self.tools,
            rewards: [("answer".to_string(), reward)].into(),
            reward,
            stop_reason: outcome.stop,
            status: outcome.status,
            turns: self.turns as u32,
            tool_calls: outcome.tool_calls,
            tool_errors: outcome.tool_errors,
            answer: check.extracted.clone().or(outcome.answer),
            answer_check: Some(check),
            level: problem.level,
            meta: problem.meta.clone(),
            environment: problem.environment.clone(),
            seed: self.script.seed,
            parents: vec![problem.id.clone()],
            ..Trajectory::default()
        };
        Ok(ScriptedResult { trajectory, turns: self.turns, timed_out: outcome.timed_out })
    }
}

/// Returns a program's conversation with the turns that were played in it. Errors: data, if it continues differently
/// from the turns so far.
fn program_messages(played: &[Message], request: &AgentTurnRequest) -> Result<Vec<Message>> {
    let turns = played.iter().filter(|m| m.role == "assistant").count();
    let places: Vec<usize> =
        (0..request.messages.len()).filter(|at| request.messages[*at].role == "assistant").collect();
    if places.len() < turns {
        return Err(Error::data("the program leaves out turns of a demonstration")
            .help("demonstrate with a program that sends the whole conversation back"));
    }
    let mut messages = request.template_messages.clone();
    // Turns before those of the agent are the program's own.
    let agent_turns = played.iter().filter(|m| m.role == "assistant").rev();
    for (at, turn) in places.into_iter().rev().zip(agent_turns) {
        messages[at] = turn.clone();
    }
    Ok(messages)
}

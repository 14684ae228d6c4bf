//! Defines the protocol between a stage and the trainer that uses its rollouts.
//!
//! The trainer sends requests (`open`, `play`, `save`), and the stage responds to each. During a `play`, the stage
//! sends requests (`say`), and the trainer responds with tokens (`said`).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use trainyard_core::{Error, Result};
use trainyard_process::excerpt;

/// Maximum bytes of one line: thousands of sequences of tens of thousands of tokens.
const MAX_LINE_BYTES: u64 = 1 << 30;

/// Message from a trainer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TrainerMessage {
    /// Requests the data that the trainer needs before the first episode.
    Open {},
    /// Requests episodes.
    Play {
        /// Number of finished optimizer steps.
        step: u64,
        /// Number of requests since the last step.
        round: u64,
        /// Problem of each group.
        problems: Vec<String>,
        /// Episodes of each group.
        members: u32,
    },
    /// Response to `say`: the new tokens of each turn.
    Said(Vec<Vec<u32>>),
    /// Requests the state that the trainer's checkpoint must contain.
    Save {},
}

/// Message from the stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageMessage<'a> {
    /// Response to `open`.
    Opened {
        /// Components of the reward with their weights.
        rewards: &'a [(String, f64)],
        /// Tokens that end a turn.
        stop: &'a [u32],
    },
    /// Requests turns.
    Say(Vec<TrainerTurnRequest<'a>>),
    /// Response to `play`.
    Played {
        /// Episodes in the order of the groups and their members.
        episodes: &'a [TrainerEpisode],
        /// Means over the episodes, for the learning curves.
        metrics: &'a BTreeMap<String, f64>,
    },
    /// Response to `save`.
    State(Value),
}

/// A turn to sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrainerTurnRequest<'a> {
    /// Tokens that the turn continues.
    pub tokens: &'a [u32],
    /// Maximum tokens of the turn.
    pub most: usize,
}

/// An episode in the trainer's form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainerEpisode {
    /// Tokens before the first turn.
    pub prompt: Vec<u32>,
    /// All further tokens, up to the last sampled one; at least one token.
    pub completion: Vec<u32>,
    /// 1 for the sampled tokens of the completion, which are learned from.
    pub mask: Vec<u8>,
    /// Components of the reward that apply; empty if the infrastructure ended the episode.
    pub rewards: BTreeMap<String, f64>,
}

/// The stage's end of the connection.
pub struct TrainerConnection {
    lines: BufReader<UnixStream>,
    closed: bool,
}

impl TrainerConnection {
    pub fn new(stream: UnixStream) -> Self {
        Self { lines: BufReader::new(stream), closed: false }
    }
    /// Returns the next message, or `None` once the trainer has closed its end. Errors: data, for a line that is not a
    /// message.
    pub fn receive(&mut self) -> Result<Option<TrainerMessage>> {
        let mut line = Vec::new();
        let read = self.lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.is_err() || line.last() != Some(&b'\n') {
            self.closed = true;
            return match line.len() as u64 == MAX_LINE_BYTES {
                true => Err(broken(&line, "it is longer than 1 GiB")),
                // A killed program may leave an incomplete line.
                false => Ok(None),
            };
        }
        serde_json::from_slice(&line).map(Some).map_err(|e| broken(&line, &e.to_string()))
    }
    /// Sends a message. Errors: retryable, if the trainer has ended.
    pub fn send(&mut self, message: &StageMessage<'_>) -> Result<()> {
        let mut line =
            serde_json::to_vec(message).map_err(|e| Error::bug(format!("a message has no JSON form: {e}")))?;
        line.push(b'\n');
        let sent = self.lines.get_mut().write_all(&line);
        sent.map_err(|_| {
            self.closed = true;
            trainer_exited()
        })
    }
    /// Returns whether the trainer has closed its end. Its exit status then gives the reason.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Returns the error of operations that wait for a trainer that has ended.
pub fn trainer_exited() -> Error {
    Error::retryable("the trainer exited during rollouts")
}

fn broken(line: &[u8], reason: &str) -> Error {
    Error::data(format!("the trainer sent an invalid message: {reason}: {}", excerpt(line)))
        .help("use the same version of Trainyard and of the program that runs the trainer")
}

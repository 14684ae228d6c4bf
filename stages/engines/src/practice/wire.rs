//! The lines between a stage and the trainer that practices with it.
//!
//! The trainer asks (`open`, `play`, `save`), and each question has one answer. While a `play` goes on, the stage asks
//! in turn (`say`), and the trainer answers with tokens.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use trainyard_core::{Error, Result};
use trainyard_process::shown;

/// Bytes of one line: thousands of sequences of tens of thousands of tokens.
const LINE: u64 = 1 << 30;

/// What a trainer writes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Heard {
    /// Asks what there is to know before the first episode.
    Open {},
    /// Asks for episodes.
    Play {
        /// Optimizer steps that are done.
        step: u64,
        /// How often it has asked since the last one.
        round: u64,
        /// The problem of each group.
        problems: Vec<String>,
        /// Episodes of each group.
        members: u32,
    },
    /// The turns that were asked for: the new tokens of each.
    Said(Vec<Vec<u32>>),
    /// Asks for what belongs into its checkpoint.
    Save {},
}

/// What the stage writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told<'a> {
    /// Answers `open`.
    Opened {
        /// Components of the reward with their weights.
        rewards: &'a [(String, f64)],
        /// Tokens that end a turn.
        stop: &'a [u32],
    },
    /// Asks for turns.
    Say(Vec<Turn<'a>>),
    /// Answers `play`.
    Played {
        /// In the order of the groups and their members.
        episodes: &'a [Episode],
        /// Means over the episodes, for the learning curves.
        metrics: &'a BTreeMap<String, f64>,
    },
    /// Answers `save`.
    State(Value),
}

/// A turn that is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn<'a> {
    /// What it continues.
    pub tokens: &'a [u32],
    /// Most tokens that it may have.
    pub most: usize,
}

/// An episode as a trainer learns from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Episode {
    /// Tokens before the first turn.
    pub prompt: Vec<u32>,
    /// All that follows, up to the last token that was drawn; at least one token.
    pub completion: Vec<u32>,
    /// 1 for the tokens of the completion that were drawn and are learned from.
    pub mask: Vec<u8>,
    /// Components of the reward that apply. None where the infrastructure ended the episode.
    pub rewards: BTreeMap<String, f64>,
}

/// One end of the connection.
pub struct Wire {
    lines: BufReader<UnixStream>,
    gone: bool,
}

impl Wire {
    pub fn new(stream: UnixStream) -> Self {
        Self { lines: BufReader::new(stream), gone: false }
    }
    /// The next line; none once the trainer writes nothing more. Errors: data, showing a line that is no message.
    pub fn hear(&mut self) -> Result<Option<Heard>> {
        let mut line = Vec::new();
        let read = self.lines.by_ref().take(LINE).read_until(b'\n', &mut line);
        if read.is_err() || line.last() != Some(&b'\n') {
            self.gone = true;
            return match line.len() as u64 == LINE {
                true => Err(broken(&line, "it is longer than 1 GiB")),
                // Half a line is what a killed program leaves.
                false => Ok(None),
            };
        }
        serde_json::from_slice(&line).map(Some).map_err(|e| broken(&line, &e.to_string()))
    }
    /// Errors: the trainer has gone.
    pub fn tell(&mut self, told: &Told<'_>) -> Result<()> {
        let mut line = serde_json::to_vec(told).map_err(|e| Error::bug(format!("a message has no JSON form: {e}")))?;
        line.push(b'\n');
        let sent = self.lines.get_mut().write_all(&line);
        sent.map_err(|_| {
            self.gone = true;
            gone()
        })
    }
    /// The trainer has closed its end: how it ended says why.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}

/// What ends whatever waits for a trainer that has gone.
pub fn gone() -> Error {
    Error::retryable("the trainer has gone while it practiced")
}

fn broken(line: &[u8], why: &str) -> Error {
    Error::data(format!("the trainer's message is none that practice knows: {why}: {}", shown(line)))
        .help("the program that drives the trainer and this program must be of one version")
}

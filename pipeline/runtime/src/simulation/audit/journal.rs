//! Checks one run's journal as batches arrive: one gapless chain, one writer per epoch, increasing attempt numbers,
//! no start after a cancel, and no stage that fails because it was preempted.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::digest::Hasher;
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{AttemptNumber, Epoch, StageKey};
use trainyard_store::BatchHeader;

/// State of a journal after the batches seen so far.
#[derive(Default)]
pub struct Journal {
    next: u64,
    before: Hasher,
    pub epoch: Epoch,
    pub writer: String,
    pub cancelled: bool,
    pub finished: bool,
    started: BTreeSet<(StageKey, AttemptNumber)>,
    last: BTreeMap<StageKey, AttemptNumber>,
}

impl Journal {
    /// Adds a batch; returns its events and violations.
    pub fn batch(&mut self, number: u64, bytes: &[u8]) -> (Vec<Event>, Vec<String>) {
        let mut wrong = Vec::new();
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let header: Option<BatchHeader> = lines.next().and_then(|line| serde_json::from_slice(line).ok());
        let Some(header) = header else { return (Vec::new(), vec![format!("batch {number} has no header")]) };
        let events: Vec<Event> = lines.filter_map(event).collect();
        if number != self.next || header.seq != number {
            wrong.push(format!("batch {number} comes where {} should", self.next));
        }
        if header.sha256_before != self.before.clone().finish() {
            wrong.push(format!("batch {number} does not continue the chain"));
        }
        self.epoch_of(&header, &events, &mut wrong);
        self.before.update(bytes);
        self.next = number + 1;
        for event in &events {
            self.event(event, &mut wrong);
        }
        (events, wrong)
    }
    /// Returns whether the attempt's start is journaled.
    pub fn has_started(&self, stage: &StageKey, attempt: AttemptNumber) -> bool {
        self.started.contains(&(stage.clone(), attempt))
    }

    fn epoch_of(&mut self, header: &BatchHeader, events: &[Event], wrong: &mut Vec<String>) {
        let opens = matches!(events.first(), Some(Event::WriterOpened { .. }));
        if opens && header.epoch == self.epoch + 1 {
            (self.epoch, self.writer) = (header.epoch, header.writer.clone());
        } else if opens || header.epoch != self.epoch || header.writer != self.writer {
            let (ours, writer) = (self.epoch, &self.writer);
            let (theirs, other) = (header.epoch, &header.writer);
            wrong.push(format!("{other} writes in epoch {theirs}, while {writer} has epoch {ours}"));
        }
    }
    fn event(&mut self, event: &Event, wrong: &mut Vec<String>) {
        if self.finished && !matches!(event, Event::WriterOpened { .. }) {
            wrong.push(format!("{event:?} comes after the end of the run"));
        }
        match event {
            Event::WriterOpened { .. } => (self.cancelled, self.finished) = (false, false),
            Event::CancelRequested { .. } => self.cancelled = true,
            Event::RunFinished { .. } => self.finished = true,
            Event::AttemptStarted { stage, attempt, .. } => {
                if self.cancelled {
                    wrong.push(format!("attempt {attempt} of {stage} was started after the run was cancelled"));
                }
                if self.last.insert(stage.clone(), *attempt).is_some_and(|before| before >= *attempt) {
                    wrong.push(format!("attempt {attempt} of {stage} was started again"));
                }
                self.started.insert((stage.clone(), *attempt));
            }
            Event::StageFailed { stage, error } if error.preempted => {
                wrong.push(format!("{stage} failed because it was preempted, which uses up no retry"));
            }
            _ => {}
        }
    }
}

fn event(line: &[u8]) -> Option<Event> {
    let value: Value = serde_json::from_slice(line).ok()?;
    EventRecord::from_value(&value).ok().map(|record| record.event)
}

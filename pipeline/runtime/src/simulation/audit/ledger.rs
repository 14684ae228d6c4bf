//! Tracks the state of the store for the auditors, and checks every change.

use super::super::process::Process;
use super::journal::Journal;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::attempt::{AttemptResult, AttemptSpec};
use trainyard_core::event::Event;
use trainyard_core::{Digest, Epoch, Error, ErrorKind, Manifest, RunId};
use trainyard_store::layout;

/// State of the store as known to the auditors.
#[derive(Default)]
pub struct Ledger {
    /// Content of all create-only objects.
    content: BTreeMap<String, Digest>,
    journals: BTreeMap<RunId, Journal>,
    manifests: BTreeMap<(Digest, u32), Manifest>,
    results: BTreeMap<String, AttemptResult>,
    /// Epochs whose writers were requested to stop.
    cancel_requested: BTreeMap<RunId, Epoch>,
    /// Folders of attempts that an engine submitted.
    submitted: BTreeSet<String>,
    /// Publications that a journal records as its own.
    published: BTreeSet<(Digest, u32)>,
}

impl Ledger {
    /// Records a write; returns its violations.
    pub fn put(&mut self, process: &Process, name: &str, bytes: &[u8]) -> Vec<String> {
        let content = Digest::of(bytes);
        if name.starts_with("objects/") {
            let own = name.ends_with(content.as_str());
            return if own { Vec::new() } else { vec![format!("{name} holds other bytes")] };
        }
        if name.ends_with("/heartbeat.json") || name.ends_with("/progress.json") {
            return Vec::new();
        }
        match self.content.insert(name.to_string(), content.clone()) {
            Some(before) if before == content => return Vec::new(),
            Some(_) => return vec![format!("{} wrote over {name}", process.name())],
            None => {}
        }
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            ["runs", _, run, "journal", number] => self.batch(&RunId((*run).into()), number, bytes),
            ["runs", _, run, "cancel", epoch] => {
                let (run, epoch) = (RunId((*run).into()), epoch.parse().unwrap_or(0));
                let requested = self.cancel_requested.entry(run).or_insert(epoch);
                *requested = epoch.max(*requested);
                Vec::new()
            }
            ["artifacts", ..] => self.manifest(name, bytes),
            [.., "result.json"] => {
                self.results.extend(serde_json::from_slice(bytes).map(|result| (name.to_string(), result)));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
    /// Records a removal; returns its violations.
    pub fn delete(&mut self, name: &str) -> Vec<String> {
        self.content.remove(name);
        if name.starts_with("checkpoints/") { Vec::new() } else { vec![format!("{name} was removed")] }
    }
    /// Records the submission of an attempt by an engine; returns its violations.
    pub fn submits(&mut self, process: &Process, spec: &AttemptSpec) -> Vec<String> {
        self.submitted.insert(layout::attempt(&spec.run, &spec.stage, spec.attempt));
        let known = self.journals.get(&spec.run).is_some_and(|j| j.has_started(&spec.stage, spec.attempt));
        let (who, stage, attempt) = (process.name(), &spec.stage, spec.attempt);
        if known {
            Vec::new()
        } else {
            vec![format!("{who} submits attempt {attempt} of {stage} before its journal records it")]
        }
    }
    /// Records the start of an attempt's process; returns its violations.
    pub fn starts(&mut self, process: &Process, folder: &str) -> Vec<String> {
        let known = self.submitted.contains(folder);
        if known { Vec::new() } else { vec![format!("{} runs {folder}, which no engine submitted", process.name())] }
    }
    /// Returns the writer of a run that was requested to stop and has journaled neither the request nor its end; `None`
    /// otherwise.
    pub fn ignores_its_cancel(&self, run: &RunId) -> Option<String> {
        let journal = self.journals.get(run)?;
        (!journal.finished && !journal.cancelled && self.cancel_requested.get(run) == Some(&journal.epoch))
            .then(|| journal.writer.clone())
    }

    fn batch(&mut self, run: &RunId, number: &str, bytes: &[u8]) -> Vec<String> {
        let number = number.parse().unwrap_or(u64::MAX);
        let (events, wrong) = self.journals.entry(run.clone()).or_default().batch(number, bytes);
        let mut wrong: Vec<String> = wrong.into_iter().map(|what| format!("journal of {run}: {what}")).collect();
        for event in events {
            wrong.extend(self.event(run, event));
        }
        wrong
    }
    fn event(&mut self, run: &RunId, event: Event) -> Option<String> {
        match event {
            Event::CacheHit { stage, digest, generation, .. } => {
                let found = self.manifests.contains_key(&(digest.clone(), generation));
                (!found).then(|| format!("{stage} of {run} is a hit, but generation {generation} is not published"))
            }
            Event::Published { stage, attempt, digest, generation, adopted, .. } => {
                let Some(manifest) = self.manifests.get(&(digest.clone(), generation)) else {
                    return Some(format!("{stage} of {run} is called published and is not"));
                };
                let own = manifest.provenance.run == *run && manifest.provenance.attempt == attempt;
                if own == adopted {
                    return Some(format!("{stage} of {run} is called adopted = {adopted} and is not"));
                }
                let again = !adopted && !self.published.insert((digest, generation));
                again.then(|| format!("{stage} of {run} is published twice as generation {generation}"))
            }
            Event::AttemptEnded { stage, error: Some(error), .. } | Event::StageFailed { stage, error } => {
                unjust(&error).then(|| format!("{stage} of {run} is called broken: {error}"))
            }
            _ => None,
        }
    }
    /// Checks that a publication belongs to an attempt that was started and left exactly this result.
    fn manifest(&mut self, name: &str, bytes: &[u8]) -> Vec<String> {
        let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else {
            return vec![format!("{name} is no manifest")];
        };
        let of = &manifest.provenance;
        let (run, stage) = (&of.run, &of.stage);
        let mut wrong = Vec::new();
        if !self.journals.get(run).is_some_and(|journal| journal.has_started(stage, of.attempt)) {
            wrong.push(format!("{name} is published by an attempt that was never started"));
        }
        let result = self.results.get(&format!("{}/result.json", layout::attempt(run, stage, of.attempt)));
        if result.is_none_or(|result| result.outputs != manifest.outputs || result.metrics != manifest.metrics) {
            wrong.push(format!("{name} is not the result of attempt {} of {stage}", of.attempt));
        }
        self.manifests.insert((manifest.stage_digest.clone(), manifest.generation), manifest);
        wrong
    }
}

/// Returns whether an error falsely reports damage or a bug: no object in the simulation is damaged, and failures of
/// its stages are intended.
fn unjust(error: &Error) -> bool {
    let intended = ["ended with", "accuracy", "instances failed"].iter().any(|text| error.message.contains(text));
    matches!(error.kind, ErrorKind::Data | ErrorKind::Bug) && !intended
}

//! Stores the files of an attempt: `spec.json`, `cancel`, `heartbeat.json` and `progress.json`, and at its end
//! `result.json` or `failure.json`. [`crate::streams`] stores its log and metrics.
//!
//! `result.json` is create-only, so only one of two processes that claim the same attempt number ends the attempt. Only
//! `heartbeat.json` and `progress.json` are ever overwritten, and no decision depends on them.

use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trainyard_core::attempt::{AttemptFailure, AttemptResult, AttemptSpec, CancelRequest, Heartbeat};
use trainyard_core::progress::ProgressRecord;
use trainyard_core::{AttemptNumber, Error, Result, RunId, StageKey};

impl Store {
    /// Puts `spec.json`. A second put of the same spec has no effect. Errors: bug (this attempt number has another
    /// spec).
    pub async fn put_spec(&self, spec: &AttemptSpec) -> Result<()> {
        let path = format!("{}/spec.json", layout::attempt(&spec.run, &spec.stage, spec.attempt));
        match self.create(&path, encode(&path, spec)?).await? {
            CreateOutcome::Ours => Ok(()),
            CreateOutcome::Theirs(_) => {
                Err(Error::bug(format!("{path}: this attempt number has another spec already")))
            }
        }
    }
    /// Returns the spec of an attempt; `None` if there is no such attempt.
    pub async fn spec(&self, run: &RunId, stage: &StageKey, attempt: AttemptNumber) -> Result<Option<AttemptSpec>> {
        self.json(&format!("{}/spec.json", layout::attempt(run, stage, attempt))).await
    }
    /// Puts `result.json`. Returns `Ours`, or the stored bytes if the attempt has another result already.
    pub async fn put_result(&self, result: &AttemptResult) -> Result<CreateOutcome> {
        let path = format!("{}/result.json", layout::attempt(&result.run, &result.stage, result.attempt));
        self.create(&path, encode(&path, result)?).await
    }
    /// Returns the result of an attempt; `None` unless it succeeded.
    pub async fn result(&self, run: &RunId, stage: &StageKey, attempt: AttemptNumber) -> Result<Option<AttemptResult>> {
        self.json(&format!("{}/result.json", layout::attempt(run, stage, attempt))).await
    }
    /// Puts `failure.json`. Returns `Ours`, or the stored bytes if the attempt has another failure record already.
    pub async fn put_failure(&self, failure: &AttemptFailure) -> Result<CreateOutcome> {
        let path = format!("{}/failure.json", layout::attempt(&failure.run, &failure.stage, failure.attempt));
        self.create(&path, encode(&path, failure)?).await
    }
    /// Returns the failure record of an attempt; `None` if the attempt has not stored one.
    pub async fn failure(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
    ) -> Result<Option<AttemptFailure>> {
        self.json(&format!("{}/failure.json", layout::attempt(run, stage, attempt))).await
    }
    /// Overwrites an attempt's heartbeat.
    pub async fn put_heartbeat(&self, spec: &AttemptSpec, heartbeat: &Heartbeat) -> Result<()> {
        let path = format!("{}/heartbeat.json", layout::attempt(&spec.run, &spec.stage, spec.attempt));
        self.overwrite(&path, encode(&path, heartbeat)?).await
    }
    /// Returns the last heartbeat of an attempt; `None` before the first.
    pub async fn heartbeat(&self, run: &RunId, stage: &StageKey, attempt: AttemptNumber) -> Result<Option<Heartbeat>> {
        self.json(&format!("{}/heartbeat.json", layout::attempt(run, stage, attempt))).await
    }
    /// Overwrites an attempt's progress.
    pub async fn put_progress(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        progress: &ProgressRecord,
    ) -> Result<()> {
        let path = format!("{}/progress.json", layout::attempt(run, stage, attempt));
        self.overwrite(&path, encode(&path, progress)?).await
    }
    /// Returns the last progress of an attempt; `None` before the first report. Errors: data (damaged).
    pub async fn progress(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
    ) -> Result<Option<ProgressRecord>> {
        self.json(&format!("{}/progress.json", layout::attempt(run, stage, attempt))).await
    }
    /// Puts a request to end an attempt. An earlier request stays in effect, and the new one is ignored.
    pub async fn request_cancel(&self, spec: &AttemptSpec, request: CancelRequest) -> Result<()> {
        let path = format!("{}/cancel", layout::attempt(&spec.run, &spec.stage, spec.attempt));
        self.create(&path, encode(&path, &request)?).await.map(|_| ())
    }
    /// Returns the request to end this attempt; `None` if its end was not requested.
    pub async fn cancel_request(&self, spec: &AttemptSpec) -> Result<Option<CancelRequest>> {
        self.json(&format!("{}/cancel", layout::attempt(&spec.run, &spec.stage, spec.attempt))).await
    }
    /// Returns the numbers of the attempts of a stage that left files, sorted.
    pub async fn list_attempts(&self, run: &RunId, stage: &StageKey) -> Result<Vec<AttemptNumber>> {
        let folder = format!("{}/{}", layout::attempts(run), layout::segment(&stage.0));
        let mut numbers: Vec<_> =
            self.list_folders(&folder).await?.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
    /// Returns the spec in an attempt's folder. Errors: lost (no such spec).
    pub async fn spec_in(&self, folder: &str) -> Result<AttemptSpec> {
        let path = format!("{folder}/spec.json");
        self.json(&path).await?.ok_or_else(|| Error::lost(format!("{}/{path} does not exist", self.url())))
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let Some(bytes) = self.get(path).await? else { return Ok(None) };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| Error::data(format!("{}/{path} is damaged: {e}", self.url())))
    }
}

pub(crate) fn encode(path: &str, value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| Error::bug(format!("{path}: no JSON form: {e}")))
}

//! Holds the state that a running stage shares with its parts that use models: API keys, stored responses, and the
//! account of their usage.

use crate::record::ChatRecord;
use crate::response::ChatResponse;
use crate::table::{self, UsedResponses};
use crate::usage::ChatUsage;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trainyard_api::{CancelToken, RequestCache, RequestsInMemory, StageContext};
use trainyard_core::{Digest, Error, Result, Secret, SecretName, Secrets};

/// Name of the port: as an input it has stored responses, as an output all responses that the stage used.
const PORT: &str = "requests";

/// Models at endpoints, with the keys and stored responses of a stage.
pub struct Models {
    secrets: Secrets,
    cache: Arc<dyn RequestCache>,
    cancel: CancelToken,
    /// Responses of the input `requests`.
    given: BTreeMap<Digest, Vec<u8>>,
    account: Mutex<Account>,
}

#[derive(Default)]
struct Account {
    /// Responses for the output `requests`; `None` if it is not connected.
    used: Option<UsedResponses>,
    /// Tally of each chat, in the order in which they were opened, and whether it is listed.
    tallies: Vec<(ChatUsage, bool)>,
}

impl Models {
    /// Creates the models of a running stage, and reads its input `requests`. Errors: data, if the input is not a table
    /// of responses.
    pub fn of_stage(context: &StageContext) -> Result<Arc<Self>> {
        let mut given = BTreeMap::new();
        for artifact in context.many(PORT) {
            given.extend(table::read(&artifact.parquet()).map_err(|e| e.at("input `requests`"))?);
        }
        let used =
            context.output_folders.contains_key(PORT).then(|| UsedResponses::create(&context.scratch)).transpose()?;
        let account = Mutex::new(Account { used, tallies: Vec::new() });
        let (secrets, cache, cancel) = (context.secrets.clone(), context.requests.clone(), context.cancel.clone());
        Ok(Arc::new(Self { secrets, cache, cancel, given, account }))
    }
    /// Creates models without keys, which keep responses in memory until they are dropped.
    pub fn in_memory() -> Arc<Self> {
        Self::with_cache(Arc::new(RequestsInMemory::default()))
    }
    /// Creates models without keys, which keep responses in `cache`.
    pub fn with_cache(cache: Arc<dyn RequestCache>) -> Arc<Self> {
        let (secrets, cancel) = (Secrets::default(), CancelToken::default());
        Arc::new(Self { secrets, cache, cancel, given: BTreeMap::new(), account: Mutex::default() })
    }
    /// Adds a client to the account and returns its index.
    pub(crate) fn register(&self, tally: ChatUsage) -> usize {
        let mut account = self.account();
        account.tallies.push((tally, true));
        account.tallies.len() - 1
    }
    /// Returns the usage of all listed clients, under the names of [`crate::metrics`]. The list is empty until a
    /// request has a response.
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        let mut sums: Vec<(&'static str, f64)> = Vec::new();
        let account = self.account();
        let used = account.tallies.iter().filter(|(tally, listed)| *listed && tally.requests > 0);
        for (name, value) in used.flat_map(|(tally, _)| tally.values()) {
            match sums.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += value,
                None => sums.push((name, value)),
            }
        }
        sums
    }
    /// Ends a stage: writes the output `requests`, if it is connected and not empty, and reports the requests that were
    /// sent to servers.
    pub fn finish(&self, context: &mut StageContext) -> Result<()> {
        let mut account = self.account();
        let tallies = account.tallies.iter().map(|(tally, _)| tally);
        let (requests, sent) = tallies.fold((0, 0), |(all, now), tally| (all + tally.requests, now + tally.sent));
        if requests == 0 {
            return Ok(());
        }
        context.measure("model_requests", json!({"answered": requests, "asked_now": sent}));
        context
            .log(format!("models responded to {requests} requests; {} responses were already stored", requests - sent));
        match account.used.take().filter(|used| !used.is_empty()) {
            Some(used) => used.write(&context.output_parquet(PORT)?),
            None => Ok(()),
        }
    }

    /// Returns the secrets that the options of the stage name.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }
    pub(crate) fn secret(&self, name: &SecretName) -> Result<Secret> {
        self.secrets.get(name).cloned()
    }
    pub(crate) fn stop_if_cancelled(&self) -> Result<()> {
        match self.cancel.is_cancelled() {
            true => Err(Error::cancelled("the attempt was cancelled")),
            false => Ok(()),
        }
    }
    /// Returns the stored records of requests, in their order. Records of the input `requests` take precedence over
    /// those of the cache.
    pub(crate) fn find(&self, requests: &[Digest]) -> Result<Vec<Option<Vec<u8>>>> {
        let unknown: Vec<Digest> = requests.iter().filter(|r| !self.given.contains_key(r)).cloned().collect();
        let mut cached = if unknown.is_empty() { Vec::new() } else { self.cache.find(&unknown)? }.into_iter();
        let one = |request| self.given.get(request).cloned().or_else(|| cached.next().flatten());
        Ok(requests.iter().map(one).collect())
    }
    pub(crate) fn keep(&self, records: Vec<(Digest, Vec<u8>)>) -> Result<Vec<Vec<u8>>> {
        if records.is_empty() { Ok(Vec::new()) } else { self.cache.keep(records) }
    }
    /// Adds a response to the output `requests`.
    pub(crate) fn record_use(&self, request: &Digest, record: &ChatRecord, response: &ChatResponse) -> Result<()> {
        match &mut self.account().used {
            Some(used) => used.add(request, record, response),
            None => Ok(()),
        }
    }
    pub(crate) fn set_usage(&self, index: usize, tally: ChatUsage) {
        if let Some(entry) = self.account().tallies.get_mut(index) {
            entry.0 = tally;
        }
    }
    pub(crate) fn exclude(&self, index: usize) {
        if let Some(entry) = self.account().tallies.get_mut(index) {
            entry.1 = false;
        }
    }
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

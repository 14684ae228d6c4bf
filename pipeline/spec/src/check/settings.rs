//! Checks the envelope of a stage: resources, retry, timeout, checks, cache, env, secrets, description.
//!
//! Values may be expressions but must be known before the run; only `env` may read metrics.

use super::checker::Checker;
use crate::diagnostic::{Diagnostic, Span, suggest};
use crate::expand::ReferenceScope;
use crate::plan::{CacheMode, DEFAULT_PREEMPTIONS, MetricCheck, ResourceRequest, Retry};
use crate::read::{Binder, BoundContent, BoundNode, MapFields, ValueReader};
use crate::run_stage::{self, names_paths};
use crate::template::Template;
use crate::vocabulary::KeyContext;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::ErrorKind;
use trainyard_core::units::Backoff;

pub(super) struct StageSettings {
    pub checks: Vec<MetricCheck>,
    pub retry: Retry,
    pub timeout: Option<Duration>,
    pub resources: Vec<ResourceRequest>,
    pub wait: Option<Duration>,
    pub cache: CacheMode,
    pub env: BTreeMap<String, Template>,
    pub secrets: Vec<String>,
    pub description: String,
}

const RETRY_KINDS: [(&str, ErrorKind); 5] = [
    ("retryable", ErrorKind::Retryable),
    ("lost", ErrorKind::Lost),
    ("data", ErrorKind::Data),
    ("bug", ErrorKind::Bug),
    ("invalid", ErrorKind::Invalid),
];
/// Keys of a single request, followed by keys that apply to all alternatives.
const REQUEST_KEYS: [&str; 8] = ["cpus", "memory", "gpus", "gpu_memory", "nodes", "tags", "any_of", "wait"];

/// Returns three attempts for transient errors; permanent errors are not retried.
fn default_retry() -> Retry {
    let backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(60) };
    Retry { attempts: 3, preemptions: DEFAULT_PREEMPTIONS, backoff, on: vec![ErrorKind::Retryable, ErrorKind::Lost] }
}

/// Returns a request without requirements.
fn no_request() -> ResourceRequest {
    ResourceRequest { nodes: 1, ..ResourceRequest::default() }
}

impl Checker<'_> {
    pub(super) fn build_settings(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
        known: bool,
    ) -> Option<StageSettings> {
        let asks = self.read(draft, view, "resources", |b, r| requests(b, r, known));
        let asks = asks.unwrap_or_else(|| Some((vec![no_request()], None)));
        if let Some((requests, _)) = &asks {
            self.requests.insert(draft, requests.clone());
        }
        let retry = self.read(draft, view, "retry", retry).unwrap_or_else(|| Some(default_retry()));
        let timeout =
            self.read(draft, view, "timeout", |b, r| r.duration(b, "`timeout`")).map_or(Some(None), |t| t.map(Some));
        let cache = self.read(draft, view, "cache", cache).unwrap_or(Some(CacheMode::Enabled));
        let checks = self.checks(draft, view, known);
        let description = self.description(draft, view);
        let secrets = self.secrets(draft, view);
        let env = self.env(draft, view);
        let (resources, wait) = asks?;
        Some(StageSettings {
            checks: checks?,
            retry: retry?,
            timeout: timeout?,
            resources,
            wait,
            cache: cache?,
            env: env?,
            secrets: secrets?,
            description: description?,
        })
    }

    /// Reads a key; the inner value is `None` if the key is absent.
    fn read<T>(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
        key: &str,
        get: impl FnOnce(&BoundNode, &mut ValueReader<'_>) -> Option<T>,
    ) -> Option<Option<T>> {
        let node = self.expanded.raw(draft).get(key)?;
        // A salt is text, so it may contain expressions.
        let text = key == "cache";
        let bound = Binder { sources: &self.expanded.sources, names: view, text, diagnostics: &mut self.diagnostics }
            .bind(node);
        Some(bound.and_then(|b| get(&b, &mut ValueReader { diagnostics: &mut self.diagnostics })))
    }

    fn description(&mut self, draft: usize, view: &ReferenceScope<'_>) -> Option<String> {
        let Some(node) = self.expanded.raw(draft).get("description") else { return Some(String::new()) };
        let bound =
            Binder { sources: &self.expanded.sources, names: view, text: true, diagnostics: &mut self.diagnostics }
                .bind(node)?;
        ValueReader { diagnostics: &mut self.diagnostics }.string(&bound, "`description`")
    }

    fn secrets(&mut self, draft: usize, view: &ReferenceScope<'_>) -> Option<Vec<String>> {
        let Some(found) = self.read(draft, view, "secrets", |b, r| r.strings(b, "`secrets`")) else {
            return Some(Vec::new());
        };
        let mut names = found?;
        let node = self.expanded.raw(draft).get("secrets");
        let mut good = true;
        for (i, name) in names.iter().enumerate() {
            let span = node
                .and_then(|n| n.list())
                .and_then(|l| l.get(i))
                .or(node)
                .map_or(self.expanded.raw(draft).id_span, |n| n.span);
            good &= self.is_provided(name, span);
        }
        names.sort();
        names.dedup();
        good.then_some(names)
    }

    /// Whether the site file provides a secret; reports one that is missing.
    fn is_provided(&mut self, name: &str, span: Span) -> bool {
        if self.site.secrets.contains_key(name) {
            return true;
        }
        let help = suggest(name, self.site.secrets.keys().map(String::as_str)).filter(|h| h.starts_with("did"));
        let help = help.unwrap_or_else(|| format!("add `secrets: {{{name}: env:{name}}}` to trainyard.yaml"));
        let message = format!("the site file provides no secret `{name}`");
        self.report(Diagnostic::error("unknown-secret", span, message).help(help));
        false
    }

    /// Collects the secrets that options name: every `{secret: NAME}` in them.
    pub(super) fn secrets_of_options(&mut self, with: &BoundNode) -> Option<Vec<String>> {
        let mut named = Vec::new();
        named_secrets(with, &mut named);
        let mut good = true;
        for (name, span) in &named {
            good &= self.is_provided(name, *span);
        }
        good.then(|| named.into_iter().map(|(name, _)| name).collect())
    }

    fn bound_env(&mut self, draft: usize, view: &ReferenceScope<'_>) -> Option<Vec<(String, Template)>> {
        let expanded = self.expanded;
        let Some(node) = expanded.raw(draft).get("env") else { return Some(Vec::new()) };
        let bound = Binder { sources: &expanded.sources, names: view, text: true, diagnostics: &mut self.diagnostics }
            .bind(node)?;
        let BoundContent::Map(entries) = &bound.content else {
            ValueReader { diagnostics: &mut self.diagnostics }.wrong(&bound, "`env`", "a map from names to texts");
            return None;
        };
        let mut words = Vec::new();
        let mut good = true;
        for entry in entries {
            if !crate::expression::is_name(&entry.key) || entry.key.starts_with("TRAINYARD_") {
                good = false;
                let d = Diagnostic::error(
                    "wrong-name",
                    entry.key_span,
                    format!("`{}` cannot be set as an environment variable", entry.key),
                );
                self.report(d.help("letters, digits and `_`; names that start with `TRAINYARD_` are reserved"));
            }
            match run_stage::word(&entry.value, &mut self.diagnostics) {
                Some(word) => words.push((entry.key.clone(), word)),
                None => good = false,
            }
        }
        good.then_some(words)
    }

    /// Reads variables whose values the engine can know.
    fn env(&mut self, draft: usize, view: &ReferenceScope<'_>) -> Option<BTreeMap<String, Template>> {
        let words = self.bound_env(draft, view)?;
        let env: BTreeMap<String, Template> = words.into_iter().filter(|(_, w)| !names_paths(w)).collect();
        if let Some(entry) = self.expanded.raw(draft).entry("env") {
            let references: Vec<_> = env.values().flat_map(Template::references).cloned().collect();
            self.link_late(draft, &references.iter().collect::<Vec<_>>(), entry.key_span);
        }
        Some(env)
    }

    /// Reads variables of a `run` stage that name local paths; they belong to its config.
    pub(super) fn env_of_paths(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
    ) -> Option<BTreeMap<String, Template>> {
        let words = self.bound_env(draft, view)?;
        Some(words.into_iter().filter(|(_, w)| names_paths(w)).collect())
    }
}

/// Collects every `{secret: NAME}` in some options, with its position.
fn named_secrets(bound: &BoundNode, named: &mut Vec<(String, Span)>) {
    match &bound.content {
        BoundContent::Map(entries) => match entries.as_slice() {
            [only] if only.key == "secret" => {
                if let Some(Value::String(name)) = only.value.value() {
                    named.push((name, only.value.span));
                }
            }
            entries => entries.iter().for_each(|entry| named_secrets(&entry.value, named)),
        },
        BoundContent::List(items) => items.iter().for_each(|item| named_secrets(item, named)),
        BoundContent::Value(value) => in_value(value, bound.span, named),
        BoundContent::Scalar(_) | BoundContent::Expression(_) | BoundContent::Text(_) => {}
    }
}

fn in_value(value: &Value, span: Span, named: &mut Vec<(String, Span)>) {
    match value {
        Value::Object(map) => match map.get("secret") {
            Some(Value::String(name)) if map.len() == 1 => named.push((name.clone(), span)),
            _ => map.values().for_each(|value| in_value(value, span, named)),
        },
        Value::Array(items) => items.iter().for_each(|item| in_value(item, span, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn retry(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Retry> {
    let fields = reader.map_at(KeyContext::Retry, bound, "`retry`", &["attempts", "preemptions", "backoff", "on"])?;
    let default = default_retry();
    let attempts = reader.optional(fields.get("attempts"), |r, b| r.integer(b, "`attempts`", 1, 1_000));
    let preemptions = reader.optional(fields.get("preemptions"), |r, b| r.integer(b, "`preemptions`", 0, 100_000));
    let backoff = reader.optional(fields.get("backoff"), |r, b| {
        let text = r.string(b, "`backoff`")?;
        r.parsed(b, "`backoff`", Backoff::parse(&text))
    });
    let on = reader.optional(fields.get("on"), |r, b| retry_kinds(b, r));
    Some(Retry {
        attempts: attempts?.map_or(default.attempts, |a| a as u32),
        preemptions: preemptions?.map_or(default.preemptions, |most| most as u32),
        backoff: backoff?.unwrap_or(default.backoff),
        on: on?.unwrap_or(default.on),
    })
}

fn retry_kinds(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Vec<ErrorKind>> {
    let words = RETRY_KINDS.map(|(name, _)| name);
    let items = reader.list(bound, "`on`")?;
    let found: Vec<Option<&str>> =
        items.iter().map(|item| reader.word(item, "a kind of error to retry on", &words)).collect();
    let found: Vec<&str> = found.into_iter().collect::<Option<_>>()?;
    Some(RETRY_KINDS.iter().filter(|(name, _)| found.contains(name)).map(|(_, kind)| *kind).collect())
}

fn cache(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<CacheMode> {
    if matches!(bound.content, BoundContent::Map(_)) {
        let fields = reader.map(bound, "`cache`", &["salt"])?;
        return fields.get("salt").map_or(Some(CacheMode::Enabled), |b| salt(b, reader).map(CacheMode::Salt));
    }
    match bound.value() {
        Some(Value::Bool(true)) => Some(CacheMode::Enabled),
        Some(Value::Bool(false)) => Some(CacheMode::Disabled),
        _ => {
            reader.wrong(bound, "`cache`", "true, false or `{salt: text}`");
            None
        }
    }
}

/// Reads any value that is known before the run, as text: `{salt: "${{ params.day }}"}`, `{salt: 3}`.
fn salt(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<String> {
    match &bound.content {
        BoundContent::Value(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
        _ => reader.string(bound, "`salt`"),
    }
}

/// Reads the alternatives in order, and how long to wait for one of them. A stage kind (`known`) runs on one machine.
fn requests(
    bound: &BoundNode,
    reader: &mut ValueReader<'_>,
    known: bool,
) -> Option<(Vec<ResourceRequest>, Option<Duration>)> {
    let fields = reader.map_at(KeyContext::Resources, bound, "`resources`", &REQUEST_KEYS)?;
    let wait = reader.optional(fields.get("wait"), |r, b| r.duration(b, "`wait`"))?;
    let base = request(&fields, &no_request(), reader, known)?;
    let Some(any_of) = fields.get("any_of") else { return Some((vec![base], wait)) };
    let alternatives = reader.list(any_of, "`any_of`")?;
    if alternatives.is_empty() {
        reader.report(
            Diagnostic::error("wrong-value", any_of.span, "`any_of` is empty")
                .help("leave it out, or end it with `{}`"),
        );
        return None;
    }
    let laid: Vec<Option<ResourceRequest>> = alternatives
        .iter()
        .map(|b| {
            let fields = reader.map_at(KeyContext::Resources, b, "an entry of `any_of`", &REQUEST_KEYS[..6])?;
            request(&fields, &base, reader, known)
        })
        .collect();
    Some((laid.into_iter().collect::<Option<_>>()?, wait))
}

/// Reads one request. Amounts replace those of `base`; tags are added to them.
fn request(
    fields: &MapFields<'_>,
    base: &ResourceRequest,
    reader: &mut ValueReader<'_>,
    known: bool,
) -> Option<ResourceRequest> {
    let cpus = reader.optional(fields.get("cpus"), |r, b| r.count(b, "`cpus`", 1));
    let memory = reader.optional(fields.get("memory"), |r, b| r.size(b, "`memory`"));
    let gpus = reader.optional(fields.get("gpus"), |r, b| r.count(b, "`gpus`", 0));
    let gpu_memory = reader.optional(fields.get("gpu_memory"), |r, b| r.size(b, "`gpu_memory`"));
    let nodes = reader.optional(fields.get("nodes"), |r, b| machines(b, r, known));
    let tags = reader.optional(fields.get("tags"), |r, b| r.strings(b, "`tags`"));
    let mut all_tags = base.tags.clone();
    all_tags.extend(tags?.unwrap_or_default());
    all_tags.sort();
    all_tags.dedup();
    Some(ResourceRequest {
        cpus: cpus?.or(base.cpus),
        memory: memory?.unwrap_or(base.memory),
        gpus: gpus?.unwrap_or(base.gpus),
        gpu_memory: gpu_memory?.unwrap_or(base.gpu_memory),
        nodes: nodes?.unwrap_or(base.nodes),
        tags: all_tags,
    })
}

/// Reads `nodes`. A stage kind is one process: granted two machines, it would silently use one.
fn machines(bound: &BoundNode, reader: &mut ValueReader<'_>, known: bool) -> Option<u32> {
    let nodes = reader.count(bound, "`nodes`", 1)?;
    if nodes > 1 && known {
        let d = Diagnostic::error(
            "out-of-range",
            bound.span,
            format!("`nodes` is {nodes}, but the stage kinds of this build run on one machine"),
        );
        reader.report(d.help(
            "only a command (`run`) runs on several machines; independent work can be several stages, by `matrix` or \
             `for_each`",
        ));
        return None;
    }
    Some(nodes)
}

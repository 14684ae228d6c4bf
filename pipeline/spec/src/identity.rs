//! Computes the digest of a plan over everything that determines the run. Comments, positions and the path of the file
//! do not change the digest.
//!
//! The digest is that of one JSON object in the form of RFC 8785, but only one stage at a time is in memory. A stage is
//! written field by field: building and sorting a map for each of 100,000 stages took half the time of `check`.

use crate::plan::{PlanNode, ResourceRequest, Retry, RunCondition, StageOutput};
use crate::template::Template;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_core::canonical::{canonical_json, write_text, write_value};
use trainyard_core::digest::Hasher;
use trainyard_core::{Digest, Result, StageKey};

/// Returns a digest that is equal for commands that start the same run; `None` if a value has no JSON form.
pub(crate) fn digest(
    name: &str,
    params: &BTreeMap<String, Value>,
    nodes: &[PlanNode],
    outputs: &BTreeMap<String, (StageKey, String)>,
) -> Option<Digest> {
    let mut hasher = Hasher::new();
    let mut writer = Writer::default();
    // Keys in the order of RFC 8785, here and below.
    hasher.update(b"{\"format\":1,\"nodes\":[");
    for (i, node) in nodes.iter().enumerate() {
        writer.text.clear();
        writer.text.extend_from_slice(if i > 0 { b"," } else { b"" });
        writer.stage(node).ok()?;
        hasher.update(&writer.text);
    }
    hasher.update(b"],");
    let rest = canonical_json(&json!({"outputs": outputs, "params": params, "workflow": name})).ok()?;
    hasher.update(&rest[1..]);
    Some(hasher.finish())
}

/// Writes one stage after another.
#[derive(Default)]
struct Writer<'n> {
    text: Vec<u8>,
    /// Resources of the last stage and their text: the next stage usually has the same.
    resources: (&'n [ResourceRequest], Vec<u8>),
    retry: Option<(&'n Retry, String)>,
}

impl<'n> Writer<'n> {
    fn stage(&mut self, node: &'n PlanNode) -> Result<()> {
        self.raw("{\"after\":");
        self.texts(node.after.iter().map(|key| key.0.as_str()))?;
        // Omitted if unset, so that plans of older files keep their digests; `wait` likewise.
        if let Some(lead) = &node.beside {
            self.raw(",\"beside\":");
            write_text(&lead.0, &mut self.text)?;
        }
        self.raw(",\"cache\":");
        write_text(&format!("{:?}", node.cache), &mut self.text)?;
        self.raw(",\"checks\":");
        self.unless(node.checks.is_empty(), "[]", || canonical_json(&node.checks))?;
        self.raw(",\"config\":");
        match &node.config {
            Template::Literal(config) => write_value(config, &mut self.text)?,
            late => self.text.extend(canonical_json(late)?),
        }
        self.raw(",\"env\":");
        self.unless(node.env.is_empty(), "{}", || canonical_json(&node.env))?;
        self.raw(",\"fan_out\":");
        let fan_out = node.fan_out.as_ref().map(|f| json!([f.rows_of, f.cap])).unwrap_or_default();
        write_value(&fan_out, &mut self.text)?;
        self.raw(",\"inputs\":");
        self.list(&node.inputs, |writer, input| {
            writer.raw("[");
            write_text(&input.port, &mut writer.text)?;
            writer.raw(",");
            writer.list(&input.from, Self::output)?;
            writer.raw("]");
            Ok(())
        })?;
        self.raw(",\"key\":");
        write_text(&node.key.0, &mut self.text)?;
        self.raw(",\"kind\":[");
        write_text(&node.kind, &mut self.text)?;
        self.raw(&format!(",{}],\"resources\":", node.kind_version));
        self.resources(&node.resources)?;
        self.raw(",\"retry\":");
        self.retry(&node.retry)?;
        self.raw(",\"secrets\":");
        self.texts(node.secrets.iter().map(String::as_str))?;
        self.raw(",\"sources\":");
        self.unless(node.sources.is_empty(), "{}", || {
            let digests: BTreeMap<&str, &Digest> =
                node.sources.iter().map(|(pointer, source)| (pointer.as_str(), &source.digest)).collect();
            canonical_json(&digests)
        })?;
        self.raw(",\"timeout\":");
        write_value(&json!(node.timeout.map(|t| t.as_millis() as u64)), &mut self.text)?;
        if let Some(wait) = node.wait {
            self.raw(&format!(",\"wait\":{}", wait.as_millis()));
        }
        self.raw(",\"when\":");
        match &node.when {
            RunCondition::Always => self.raw("\"always\""),
            RunCondition::Never(_) => self.raw("\"never\""),
            RunCondition::Late(e) => write_text(&e.to_string(), &mut self.text)?,
        }
        self.raw("}");
        Ok(())
    }

    fn output(&mut self, of: &StageOutput) -> Result<()> {
        self.raw("{\"output\":");
        write_text(&of.output, &mut self.text)?;
        self.raw(",\"stage\":");
        write_text(&of.stage.0, &mut self.text)?;
        self.raw("}");
        Ok(())
    }

    fn resources(&mut self, requests: &'n [ResourceRequest]) -> Result<()> {
        if self.resources.1.is_empty() || self.resources.0 != requests {
            self.resources = (requests, canonical_json(&requests)?);
        }
        self.text.extend_from_slice(&self.resources.1);
        Ok(())
    }

    fn retry(&mut self, retry: &'n Retry) -> Result<()> {
        let written = match self.retry.take() {
            Some((last, written)) if last == retry => written,
            _ => format!("{retry:?}"),
        };
        write_text(&written, &mut self.text)?;
        self.retry = Some((retry, written));
        Ok(())
    }

    fn list<T>(&mut self, items: &[T], one: impl Fn(&mut Self, &T) -> Result<()>) -> Result<()> {
        self.raw("[");
        for (i, item) in items.iter().enumerate() {
            self.raw(if i > 0 { "," } else { "" });
            one(self, item)?;
        }
        self.raw("]");
        Ok(())
    }

    fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Result<()> {
        self.raw("[");
        for (i, text) in texts.enumerate() {
            self.raw(if i > 0 { "," } else { "" });
            write_text(text, &mut self.text)?;
        }
        self.raw("]");
        Ok(())
    }

    fn unless(&mut self, empty: bool, none: &str, full: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        if empty {
            self.raw(none);
        } else {
            self.text.extend(full()?);
        }
        Ok(())
    }

    fn raw(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;
    use crate::plan::{
        CacheMode, CheckSeverity, DEFAULT_PREEMPTIONS, FanOut, InputBinding, MetricCheck, Retry, SourceRef, StageOutput,
    };
    use std::time::Duration;
    use trainyard_core::units::Backoff;
    use trainyard_core::{ArtifactKind, Cardinality, Placement};

    fn node(key: &str) -> PlanNode {
        PlanNode {
            key: StageKey(key.into()),
            kind: "noop".into(),
            kind_version: 1,
            placement: Placement::InProcess,
            all_cpus: false,
            main_metric: None,
            config: Template::Literal(json!({"value": 0.5, "ä": key})),
            sources: BTreeMap::new(),
            inputs: Vec::new(),
            outputs: BTreeMap::new(),
            after: Vec::new(),
            when: RunCondition::Always,
            fan_out: None,
            checks: Vec::new(),
            retry: Retry {
                attempts: 1,
                preemptions: DEFAULT_PREEMPTIONS,
                backoff: Backoff { first: Duration::ZERO, most: Duration::ZERO },
                on: Vec::new(),
            },
            timeout: None,
            resources: vec![ResourceRequest::default()],
            wait: None,
            beside: None,
            cache: CacheMode::Enabled,
            env: BTreeMap::new(),
            secrets: Vec::new(),
            description: String::new(),
            place: String::new(),
        }
    }

    /// Builds a stage as one value.
    fn summary(node: &PlanNode) -> Value {
        let sources: BTreeMap<&str, &Digest> =
            node.sources.iter().map(|(pointer, s)| (pointer.as_str(), &s.digest)).collect();
        let inputs: Vec<Value> = node.inputs.iter().map(|i| json!([i.port, i.from])).collect();
        let when = match &node.when {
            RunCondition::Always => "always".into(),
            RunCondition::Never(_) => "never".into(),
            RunCondition::Late(e) => e.to_string(),
        };
        let mut summary = json!({
            "key": node.key,
            "kind": [node.kind, node.kind_version],
            "config": node.config,
            "sources": sources,
            "inputs": inputs,
            "after": node.after,
            "when": when,
            "fan_out": node.fan_out.as_ref().map(|f| json!([f.rows_of, f.cap])),
            "checks": node.checks,
            "retry": format!("{:?}", node.retry),
            "timeout": node.timeout.map(|t| t.as_millis() as u64),
            "resources": node.resources,
            "cache": format!("{:?}", node.cache),
            "env": node.env,
            "secrets": node.secrets,
        });
        if let Some(lead) = &node.beside {
            summary["beside"] = json!(lead);
        }
        if let Some(wait) = node.wait {
            summary["wait"] = json!(wait.as_millis() as u64);
        }
        summary
    }

    #[test]
    fn default_limit_of_preemptions_leaves_digests_as_they_were() {
        let text = |preemptions| format!("{:?}", Retry { preemptions, ..node("a").retry });
        let before = "Retry { attempts: 1, backoff: Backoff { first: 0ns, most: 0ns }, on: [] }";
        assert_eq!(text(DEFAULT_PREEMPTIONS), before);
        assert!(text(3).ends_with(", on: [], preemptions: 3 }"), "{}", text(3));
    }

    #[test]
    fn the_digest_is_that_of_one_json_object() {
        let params = BTreeMap::from([("steps".to_string(), json!(1e2)), ("a \"b\"".to_string(), json!(null))]);
        let outputs = BTreeMap::from([("o".to_string(), (StageKey("s".into()), "x".to_string()))]);
        let of = |stage: &str| StageOutput { stage: StageKey(stage.into()), output: "o \"x\"".into() };
        let full = PlanNode {
            sources: BTreeMap::from([("/a".into(), SourceRef { location: "/x".into(), digest: Digest::of(b"x") })]),
            inputs: vec![InputBinding {
                port: "in".into(),
                kind: ArtifactKind::Table,
                cardinality: Cardinality::Many,
                from: vec![of("first"), of("second")],
            }],
            after: vec![StageKey("first".into()), StageKey("second".into())],
            when: RunCondition::Late(Expression::parse("stages.first.metrics.a > 0.5").unwrap()),
            fan_out: Some(FanOut { rows_of: of("first"), cap: 7 }),
            checks: vec![MetricCheck {
                metric: "m".into(),
                of: None,
                min: Some(0.1),
                max: None,
                severity: CheckSeverity::Warn,
                role: Some("guard".into()),
                pooled: true,
            }],
            timeout: Some(Duration::from_millis(1_500)),
            wait: Some(Duration::from_secs(60)),
            beside: Some(StageKey("first".into())),
            resources: vec![ResourceRequest {
                memory: u64::MAX,
                tags: vec!["ä\n".into()],
                ..ResourceRequest::default()
            }],
            cache: CacheMode::Salt("s\t".into()),
            env: BTreeMap::from([("E".into(), Template::Literal(json!("v")))]),
            secrets: vec!["A".into(), "B".into()],
            config: Template::Map(BTreeMap::from([(
                "late".into(),
                Template::Expression(Expression::parse("stages.first.status").unwrap()),
            )])),
            ..node("third")
        };
        let nodes =
            [node("first"), node("second"), full, PlanNode { when: RunCondition::Never("x".into()), ..node("fourth") }];
        for nodes in (0..=nodes.len()).map(|count| &nodes[..count]) {
            let summaries: Vec<Value> = nodes.iter().map(summary).collect();
            let whole = json!({"format": 1, "workflow": "w", "params": params, "nodes": summaries, "outputs": outputs});
            assert_eq!(digest("w", &params, nodes, &outputs), Digest::of_json(&whole).ok());
        }
    }
}

//! Fills in options that the file determines elsewhere: the producers of an input, and the params of the workflow.
//!
//! Both enter the config, so a stage knows the names of what it reads and is still a function of its config and inputs.

use super::checker::Checker;
use super::inputs::entries;
use crate::expand::params::ParamValue;
use crate::expand::{Draft, ReferenceScope, axes};
use crate::read::BoundNode;
use crate::template::Template;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{AxisInstance, AxisValue, KindInfo};

impl Checker<'_> {
    /// Sets the options that the schema marks and that the file does not set.
    pub(super) fn fill_in(
        &self,
        draft: usize,
        info: &KindInfo,
        with: &BoundNode,
        config: &mut BTreeMap<String, Template>,
    ) {
        for (name, schema) in info.options.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let unless = schema.get("x-unless").and_then(Value::as_str);
            if config.contains_key(name) || unless.is_some_and(|other| config.contains_key(other)) {
                continue;
            }
            let instances = schema.get("x-instances-of").and_then(Value::as_str);
            let value = match instances {
                Some(port) => self.instances(draft, with, port),
                None if schema.get("x-params").is_some() => self.shown_params(draft),
                None => None,
            };
            if let Some(value) = value {
                config.insert(name.clone(), Template::Literal(value));
            }
        }
    }

    /// Returns the stage instances that a port reads; `None` unless there are several, with unique names, and one has
    /// an axis that the reading stage does not have.
    fn instances(&self, draft: usize, with: &BoundNode, port: &str) -> Option<Value> {
        let entry = entries(with).iter().find(|e| e.key == port)?;
        let reader = &self.expanded.drafts[draft];
        let targets = ReferenceScope::of(self.expanded, reader, None).all_targets(&entry.value).ok()?.items;
        let drafts: Vec<&Draft> = targets.iter().map(|target| &self.expanded.drafts[target.draft]).collect();
        if drafts.len() < 2 || drafts.iter().any(|producer| producer.late.is_some()) {
            return None;
        }
        let is_shared = |own: &&axes::Coordinate| {
            let others = drafts.iter().flat_map(|producer| self.coordinates(producer));
            others.filter(|other| other.axis == own.axis).all(|other| other == *own)
        };
        let shared: Vec<&axes::Coordinate> = self.coordinates(reader).into_iter().filter(is_shared).collect();
        let instances: Vec<AxisInstance> = drafts.iter().map(|producer| self.instance(producer, &shared)).collect();
        let names: BTreeSet<&str> = instances.iter().map(|instance| instance.name.as_str()).collect();
        let shown = instances.iter().any(|instance| !instance.axes.is_empty()) && names.len() == instances.len();
        if shown { serde_json::to_value(&instances).ok() } else { None }
    }

    /// Returns a producer with its coordinates, without those that all producers share with their reader.
    fn instance(&self, producer: &Draft, shared: &[&axes::Coordinate]) -> AxisInstance {
        let mut own = self.coordinates(producer);
        own.retain(|c| !shared.contains(c));
        let value = |c: &axes::Coordinate| match &c.value {
            Value::Array(_) | Value::Object(_) | Value::Null => Value::from(c.label.as_str()),
            scalar => scalar.clone(),
        };
        let home = &self.expanded.workflow_instances[producer.workflow];
        AxisInstance {
            name: format!(
                "{}{}{}",
                home.prefix,
                home.workflow.stages[producer.stage].id,
                axes::suffix(own.iter().copied())
            ),
            axes: own.iter().map(|c| AxisValue { axis: c.axis.clone(), value: value(c) }).collect(),
        }
    }

    /// Returns all coordinates of a draft, those of its embedding stages first.
    fn coordinates<'d>(&'d self, draft: &'d Draft) -> Vec<&'d axes::Coordinate> {
        self.expanded.workflow_instances[draft.workflow].inherited.iter().chain(&draft.coordinates).collect()
    }

    /// Returns the params of the draft's file without paths and URLs, since digests do not depend on locations.
    fn shown_params(&self, draft: usize) -> Option<Value> {
        let home = &self.expanded.workflow_instances[self.expanded.drafts[draft].workflow];
        let is_location =
            |value: &Value| value.as_str().is_some_and(|text| text.starts_with('/') || text.contains("://"));
        let known = home.params.iter().filter_map(|(name, value)| match value {
            ParamValue::Known(value) if !is_location(value) => Some((name.clone(), value.clone())),
            _ => None,
        });
        let params: Map<String, Value> = known.collect();
        (!params.is_empty()).then_some(Value::Object(params))
    }
}

//! Prepares a node whose inputs are known: builds the spec of its attempts and computes the stage digest.

use crate::digest::{StageIdentity, stage_digest};
use crate::engine::RunEngine;
use crate::io::NodeId;
use crate::node::{NodeOutcome, NodePhase, NodeState};
use crate::scope::LateScope;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptInput, AttemptOutput, AttemptResources, AttemptSpec};
use trainyard_core::{Cardinality, Digest, Error, Placement, PortInfo, Result};
use trainyard_spec::expression::value_text;
use trainyard_spec::plan::{CacheMode, InputBinding, PlanNode, StageOutput};

/// Number of stages inside this process that are in progress at once, from their digest to their end. Only the plan of
/// the others is in memory, so the specs, queries and results of 100,000 of them are never held together. Stages of
/// pools have no such limit.
const MAX_IN_PROCESS: usize = 2_048;

impl RunEngine {
    /// Prepares a node, or queues it for preparation if it runs inside this process and the limit is reached.
    pub(crate) fn schedule_prepare(&mut self, node: NodeId) {
        if self.state(node).plan.placement == Placement::Process || self.forecasting {
            return self.prepare(node);
        }
        self.state_mut(node).phase = NodePhase::AwaitingTurn;
        self.prepare_queue.push_back(node);
    }

    /// Prepares the next queued node if the limit allows it. Returns whether a node was prepared.
    pub(crate) fn prepare_next(&mut self) -> bool {
        while self.in_progress < MAX_IN_PROCESS
            && let Some(node) = self.prepare_queue.pop_front()
        {
            // Some were cancelled meanwhile.
            if self.state(node).phase == NodePhase::AwaitingTurn {
                self.in_progress += 1;
                self.state_mut(node).in_progress = true;
                self.prepare(node);
                return true;
            }
        }
        false
    }

    /// Computes the digest and queries the store for it, or fails the stage.
    ///
    /// A companion is then ready; its lead continues once the whole group is, because its digest includes theirs.
    pub(crate) fn prepare(&mut self, node: NodeId) {
        if !self.is_gathered(node) {
            self.state_mut(node).phase = NodePhase::AwaitingCompanions;
            return;
        }
        match self.config_of(node).and_then(|config| self.spec_of(node, config)) {
            Ok(spec) => {
                let state = self.state_mut(node);
                state.digest = Some(spec.stage_digest.clone());
                state.spec = Some(Arc::new(spec));
                match self.state(node).lead {
                    Some(lead) => self.companion_ready(node, lead),
                    None => self.look_up(node),
                }
            }
            Err(error) => self.fail(node, error),
        }
    }

    /// Returns why a skipped upstream stage skips this one; `None` if only optional ports are affected.
    pub(crate) fn skipped_input(&self, node: NodeId) -> Option<String> {
        let state = self.state(node);
        let rows = state.plan.fan_out.iter().filter(|_| state.is_group()).map(|f| &f.rows_of);
        let needed = state.plan.inputs.iter().filter(|i| i.cardinality != Cardinality::Optional).flat_map(|i| &i.from);
        let skipped = |of: &&StageOutput| self.find(&of.stage.0).is_some_and(|found| self.is_skipped(state, found));
        rows.chain(needed)
            .find(skipped)
            .map(|of| format!("`{}` was skipped, and with it the input `{}`", of.stage, of.output))
    }

    fn is_skipped(&self, state: &NodeState, found: NodeId) -> bool {
        if state.is_group() && self.same_axes(state, found) {
            return false;
        }
        self.state(self.bound(state, found)).ending() == Some(NodeOutcome::Skipped)
    }

    fn spec_of(&self, node: NodeId, config: Value) -> Result<AttemptSpec> {
        let state = self.state(node);
        let plan = &state.plan;
        let scope = LateScope { engine: self, node };
        let env = plan.env.iter().map(|(name, t)| Ok((name.clone(), value_text(&t.resolve(&scope)?))));
        let env = env.collect::<Result<BTreeMap<_, _>>>()?;
        let mut inputs = BTreeMap::new();
        for binding in &plan.inputs {
            let list = self.inputs_of(state, binding)?;
            if !list.is_empty() {
                inputs.insert(binding.port.clone(), list);
            }
        }
        let salt = match &plan.cache {
            CacheMode::Salt(salt) => Some(salt.as_str()),
            CacheMode::Enabled | CacheMode::Disabled => None,
        };
        let chosen = self.chosen_outputs(plan);
        let beside = self.digests_beside(node);
        let identity = StageIdentity {
            kind: &plan.kind,
            kind_version: plan.kind_version,
            config: &config,
            sources: &plan.sources,
            inputs: &inputs,
            env: &env,
            outputs: chosen.as_ref(),
            salt,
            beside: &beside,
        };
        Ok(AttemptSpec {
            format: 1,
            workflow: self.workflow.clone(),
            run: self.setup.run.clone(),
            stage: state.key.clone(),
            attempt: 0,
            stage_digest: stage_digest(&identity)?,
            kind: plan.kind.clone(),
            kind_version: plan.kind_version,
            config,
            inputs,
            outputs: plan.outputs.clone(),
            resources: AttemptResources::default(),
            timeout_millis: plan.timeout.map(millis),
            env,
            secrets: self.secrets_of(state)?,
            withheld: self.withheld_from(state),
            sources: local_sources(plan),
            uploaded: BTreeMap::new(),
            orphan_timeout_millis: Some(millis(self.setup.orphan_timeout)),
            fsync: self.setup.fsync,
            store_outage_millis: Some(millis(self.setup.store_outage)),
            peers: Vec::new(),
            wait_millis: None,
        })
    }

    /// Returns the outputs that the file chooses, which are part of the computation: those of a `run` stage, and those
    /// of a kind whose ports have a placeholder. The catalogue fixes all others.
    fn chosen_outputs(&self, plan: &PlanNode) -> Option<BTreeMap<String, AttemptOutput>> {
        let Some(info) = self.setup.catalogue.kind(&plan.kind) else { return Some(plan.outputs.clone()) };
        let named = plan.outputs.iter().filter(|(name, _)| info.output(name).is_some_and(PortInfo::is_family));
        let named: BTreeMap<_, _> = named.map(|(name, output)| (name.clone(), output.clone())).collect();
        (!named.is_empty()).then_some(named)
    }

    fn secrets_of(&self, state: &NodeState) -> Result<BTreeMap<String, String>> {
        let one = |name: &String| match self.setup.secrets.get(name) {
            Some(place) => Ok((name.clone(), place.clone())),
            None => Err(Error::invalid(format!(
                "stage `{}` needs the secret `{name}`, which the site file does not provide",
                state.key
            ))
            .help(format!("add `secrets: {{{name}: env:{name}}}` to the site file"))),
        };
        state.plan.secrets.iter().map(one).collect()
    }

    fn withheld_from(&self, state: &NodeState) -> BTreeMap<String, String> {
        let mut withheld = self.setup.secrets.clone();
        withheld.retain(|name, _| !state.plan.secrets.contains(name));
        withheld
    }

    fn inputs_of(&self, state: &NodeState, binding: &InputBinding) -> Result<Vec<AttemptInput>> {
        let mut inputs = Vec::new();
        for of in &binding.from {
            let found = self.find(&of.stage.0).ok_or_else(|| {
                Error::bug(format!("`{}` reads from `{}`, which is not in the plan", state.key, of.stage))
            })?;
            let producer = self.bound(state, found);
            if self.state(producer).is_group() {
                // Instances that were skipped are left out.
                for instance in &self.state(producer).instances {
                    inputs.extend(self.artifact(state, binding, *instance, &of.output)?);
                }
            } else {
                inputs.extend(self.artifact(state, binding, producer, &of.output)?);
            }
        }
        Ok(inputs)
    }

    fn artifact(
        &self,
        state: &NodeState,
        binding: &InputBinding,
        producer: NodeId,
        output: &str,
    ) -> Result<Option<AttemptInput>> {
        let producer = self.state(producer);
        let Some(manifest) = &producer.manifest else { return Ok(None) };
        let Some(found) = manifest.outputs.get(output) else {
            // An omitted optional output counts as no artifact, which a `one` port cannot take.
            return match binding.cardinality {
                Cardinality::Optional | Cardinality::Many => Ok(None),
                Cardinality::One => Err(Error::invalid(format!(
                    "`{}` left no output `{output}`, which the input `{}` of `{}` needs",
                    producer.key, binding.port, state.key
                ))),
            };
        };
        let mut lean = found.clone();
        if let Some(table) = &mut lean.table {
            // An attempt reads the table itself.
            table.preview.clear();
        }
        Ok(Some(AttemptInput {
            stage_digest: manifest.stage_digest.clone(),
            generation: manifest.generation,
            output_name: output.to_string(),
            output: lean,
        }))
    }
}

/// Returns the sources whose content an attempt can compare with that at the time of the plan.
fn local_sources(plan: &PlanNode) -> BTreeMap<String, Digest> {
    plan.sources.values().filter(|s| s.is_local()).map(|s| (s.location.clone(), s.digest.clone())).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

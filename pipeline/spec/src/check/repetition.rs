//! Warns of stages of a scheduled workflow that run once and are cache hits from then on.
//!
//! A command without inputs usually reads data that the cache cannot see (a database, a web page, the date). On a
//! schedule such a command would read the data at the first tick only, and every later run would succeed without
//! running it.

use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::plan::{CacheMode, PlanNode};
use crate::run_stage;

/// Parameter that receives the time of each tick.
const TICK: &str = "params.tick";

impl Checker<'_> {
    /// Warns of scheduled stages that cannot change between runs.
    pub(super) fn repetition(&mut self, nodes: &[Option<PlanNode>]) {
        let Some(schedule) = &self.expanded.workflow_instances.first().and_then(|main| main.workflow.schedule.clone())
        else {
            return;
        };
        let known: Option<Vec<&PlanNode>> = nodes.iter().map(Option::as_ref).collect();
        let (mut commands, mut changes) = (false, false);
        for (draft, node) in nodes.iter().enumerate() {
            let raw = self.expanded.raw(draft);
            if raw.mentions(TICK) {
                // The text differs at every tick.
                changes = true;
                continue;
            }
            if !node.as_ref().is_some_and(|n| n.kind == run_stage::KIND && is_fixed(n)) {
                continue;
            }
            commands = true;
            let message = format!("`{}` has no inputs and will not run again after its first success", raw.id);
            let help = "set `cache: false`, or `cache: {salt: …}` to something that changes, such as a param";
            self.report(Diagnostic::warning("never-again", raw.id_span, message).help(help));
        }
        if !commands
            && !changes
            && known.is_some_and(|all| all.iter().all(|n| !n.inputs.is_empty() || is_without_source(n)))
        {
            let message = "nothing that this file reads can change: after the first run all stages come from the cache";
            let help = "import a file that changes, or set `cache: false` on the first stage";
            self.report(Diagnostic::warning("never-again", schedule.key_span, message).help(help));
        }
    }
}

/// Whether the digest of a stage is the same at every tick.
fn is_fixed(node: &PlanNode) -> bool {
    let env_is_known = node.env.values().all(|value| value.as_literal().is_some());
    node.inputs.is_empty() && node.cache == CacheMode::Enabled && node.fan_out.is_none() && env_is_known
}

fn is_without_source(node: &PlanNode) -> bool {
    is_fixed(node) && node.sources.is_empty()
}

//! Implements the reward `hierarchical`: format first, then the answer, then the use of several tools; from Tool-Star
//! (arXiv 2505.16410).
//!
//! The levels cannot be traded: no bonus makes up for an incorrect answer, and no answer for a malformed turn.

use crate::rewards::format::well_formed;
use crate::rewards::reward::tools_that_ran;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `hierarchical`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HierarchicalOptions {
    /// Value if a turn is malformed.
    pub bad_format: f64,
    /// Value of a wrong or missing answer.
    pub wrong: f64,
    /// Value of a right answer.
    pub right: f64,
    /// Added to a right answer that used several tools.
    pub bonus: f64,
    /// How many different tools earn the bonus.
    #[schemars(range(min = 1))]
    pub tools: u32,
    /// Tools that count toward the bonus; empty = all.
    pub bonus_tools: Vec<String>,
}

impl Default for HierarchicalOptions {
    fn default() -> Self {
        Self { bad_format: -1.0, wrong: 0.0, right: 1.0, bonus: 0.1, tools: 2, bonus_tools: Vec::new() }
    }
}

impl PartOptions for HierarchicalOptions {
    const KIND: &'static str = "hierarchical";
    const SUMMARY: &'static str = "format, then the answer, then a bonus for several tools";
    const DOC: &'static str = "value = bad_format if a turn is malformed (−1);\n\
        = wrong if all turns are well formed but the answer is wrong (0);\n\
        = right for a right answer (1);\n\
        = right + bonus if also at least `tools` different tools ran (1.1).\n\n\
        A turn is well formed as in the reward `format`. A call counts if its tool returned a result: unknown\n\
        tools and calls beyond a limit earn nothing. The paper's two tools are search and Python; `bonus_tools` names\n\
        those that count here. Does not apply to records without messages. Source: 2505.16410.";
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            OptionProblem::out_of_range("/tools", self.tools, 1..).into_iter().collect();
        let named: BTreeSet<&String> = self.bonus_tools.iter().collect();
        if !named.is_empty() && (self.tools as usize) > named.len() {
            let message =
                format!("the bonus needs {} different tools, but bonus_tools names only {}", self.tools, named.len());
            problems
                .push(OptionProblem::new("/tools", message).help("list more tools in `bonus_tools`, or lower `tools`"));
        }
        problems
    }
}

pub struct HierarchicalReward(pub HierarchicalOptions);

impl Reward for HierarchicalReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        let o = &self.0;
        Ok(match well_formed(r, p) {
            None => Score::not_applicable(),
            Some(false) => Score::of(o.bad_format),
            Some(true) if !g.right(r, p) => Score::of(o.wrong),
            Some(true) => {
                let different: BTreeSet<String> = tools_that_ran(r, p, &o.bonus_tools).into_iter().collect();
                Score::of(o.right + if different.len() >= o.tools as usize { o.bonus } else { 0.0 })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::kit::{answer, called, episode};
    use crate::rewards::reward::score_alone;

    fn value(options: HierarchicalOptions, r: &Trajectory) -> Option<f64> {
        let p = Problem { answer: "7".to_string(), ..Problem::default() };
        score_alone(&HierarchicalReward(options), r, &p).value
    }

    #[test]
    fn levels_in_order() {
        let default = HierarchicalOptions::default;
        let both = [called(&["search"]), called(&["python"])].concat();
        assert_eq!(value(default(), &episode(&[both.clone(), answer("7")])), Some(1.1));
        assert_eq!(
            value(default(), &episode(&[called(&["search", "python"]), answer("7")])),
            Some(1.1),
            "both in one turn"
        );
        assert_eq!(value(default(), &episode(&[called(&["search"]), called(&["search"]), answer("7")])), Some(1.0));
        assert_eq!(value(default(), &episode(&[both.clone(), answer("8")])), Some(0.0), "no bonus for a wrong answer");
        let mut broken = episode(&[both, answer("7")]);
        broken.messages[0].content.push_str("<tool_call>");
        assert_eq!(value(default(), &broken), Some(-1.0), "a right answer does not make up for it");
        assert_eq!(value(default(), &Trajectory::default()), None);
    }

    #[test]
    fn only_executed_calls_of_named_tools_count() {
        let named = |names: &[&str]| HierarchicalOptions {
            bonus_tools: names.iter().map(|n| (*n).to_string()).collect(),
            ..HierarchicalOptions::default()
        };
        let r = episode(&[called(&["search", "python"]), answer("7")]);
        assert_eq!(value(named(&["search", "python"]), &r), Some(1.1));
        assert_eq!(value(named(&["search", "browser"]), &r), Some(1.0));
        let mut unknown = r.clone();
        unknown.messages[2].content = crate::tools::ToolResult::unknown_tool("python", &["search"]).text;
        assert_eq!(value(HierarchicalOptions::default(), &unknown), Some(1.0));
    }

    #[test]
    fn unreachable_bonus_is_rejected() {
        assert_eq!(HierarchicalOptions::default().check(), []);
        assert_eq!(HierarchicalOptions { tools: 0, ..HierarchicalOptions::default() }.check()[0].pointer, "/tools");
        let twice =
            HierarchicalOptions { bonus_tools: vec!["python".to_string(); 2], ..HierarchicalOptions::default() };
        assert_eq!(twice.check().len(), 1);
    }
}

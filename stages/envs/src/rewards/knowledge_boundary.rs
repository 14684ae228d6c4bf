//! Implements the reward `knowledge_boundary`, which pays for searching only if the model does not know the answer;
//! from IKEA (arXiv 2505.07596).
//!
//! A correct answer is worth more the fewer searches it took, and an incorrect answer slightly more if the model
//! searched at least once.

use crate::rewards::format::well_formed;
use crate::rewards::reward::tools_that_ran;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `knowledge_boundary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KnowledgeBoundaryOptions {
    /// Value if a turn is malformed.
    pub bad_format: f64,
    /// Value of a right answer, before the bonus for saved searches.
    pub right: f64,
    /// r⁺: bonus of a right answer without any search.
    pub known: f64,
    /// r⁻: value of a wrong answer after at least one search. Keep it small, or searching alone pays.
    pub searched: f64,
    /// Number of searches at which the bonus reaches 0.
    #[schemars(range(min = 1))]
    pub most_searches: u32,
    /// Names of the search tools; empty = all tools.
    pub search_tools: Vec<String>,
}

impl Default for KnowledgeBoundaryOptions {
    fn default() -> Self {
        Self { bad_format: -1.0, right: 1.0, known: 0.6, searched: 0.05, most_searches: 3, search_tools: Vec::new() }
    }
}

impl PartOptions for KnowledgeBoundaryOptions {
    const KIND: &'static str = "knowledge_boundary";
    const SUMMARY: &'static str = "right answers with few searches, and a little for trying";
    const DOC: &'static str = "With RT = calls of search tools that returned a result and M = `most_searches`:\n\
        value = bad_format if a turn is malformed (−1);\n\
        = right + known·(1 − min(RT, M)/M) for a right answer;\n\
        = 0 for a wrong answer without a search, `searched` for one after a search (0.05).\n\n\
        The defaults are those of the released code: a right answer gets 1.6, 1.4, 1.2 and 1 for 0, 1, 2 and more\n\
        searches. A turn is well formed as in the reward `format`. Does not apply to records without messages.\n\
        Source: 2505.07596.";
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            OptionProblem::out_of_range("/most_searches", self.most_searches, 1..).into_iter().collect();
        if self.searched >= self.right {
            let message =
                format!("a wrong answer after a search would get {}, a right one {}", self.searched, self.right);
            problems.push(OptionProblem::new("/searched", message).help("use a value below `right`"));
        }
        problems
    }
}

pub struct KnowledgeBoundaryReward(pub KnowledgeBoundaryOptions);

impl Reward for KnowledgeBoundaryReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        let o = &self.0;
        let searches = || tools_that_ran(r, p, &o.search_tools).len();
        Ok(match well_formed(r, p) {
            None => Score::not_applicable(),
            Some(false) => Score::of(o.bad_format),
            Some(true) if g.right(r, p) => {
                let max = f64::from(o.most_searches);
                let saved_share = 1.0 - (searches() as f64).min(max) / max;
                Score::of(o.right + o.known * saved_share)
            }
            Some(true) => Score::of(if searches() == 0 { 0.0 } else { o.searched }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::kit::{answer, called, episode};
    use crate::rewards::reward::score_alone;
    use trainyard_tables::Message;

    fn value(options: KnowledgeBoundaryOptions, r: &Trajectory) -> Option<f64> {
        let p = Problem { answer: "7".to_string(), ..Problem::default() };
        score_alone(&KnowledgeBoundaryReward(options), r, &p).value
    }

    /// Returns an episode with `times` searches and then an answer.
    fn searching(times: usize, text: &str) -> Trajectory {
        let mut turns: Vec<Vec<Message>> = vec![called(&["search"]); times];
        turns.push(answer(text));
        episode(&turns)
    }

    #[test]
    fn defaults_match_the_released_code() {
        let default = KnowledgeBoundaryOptions::default;
        for (times, expected) in [(0, 1.6), (1, 1.4), (2, 1.2), (3, 1.0), (5, 1.0)] {
            let found = value(default(), &searching(times, "7")).unwrap();
            assert!((found - expected).abs() < 1e-12, "{times} searches: {found}");
        }
        assert_eq!(value(default(), &searching(0, "8")), Some(0.0));
        assert_eq!(value(default(), &searching(1, "8")), Some(0.05));
        assert_eq!(value(default(), &searching(5, "8")), Some(0.05));
        let mut broken = searching(1, "7");
        broken.messages[0].content.push_str("</tool_call>");
        assert_eq!(value(default(), &broken), Some(-1.0));
        assert_eq!(value(default(), &Trajectory::default()), None);
    }

    #[test]
    fn only_named_search_tools_count() {
        let named = || KnowledgeBoundaryOptions {
            search_tools: vec!["search".to_string()],
            ..KnowledgeBoundaryOptions::default()
        };
        let r = episode(&[called(&["python", "python"]), called(&["search"]), answer("7")]);
        assert!((value(named(), &r).unwrap() - 1.4).abs() < 1e-12);
        assert!((value(KnowledgeBoundaryOptions::default(), &r).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(value(named(), &episode(&[called(&["python"]), answer("8")])), Some(0.0));
    }

    #[test]
    fn fewer_searches_pay_and_right_answers_pay_more() {
        for most_searches in 1..6 {
            let options = || KnowledgeBoundaryOptions { most_searches, ..KnowledgeBoundaryOptions::default() };
            let right: Vec<f64> = (0..8).map(|times| value(options(), &searching(times, "7")).unwrap()).collect();
            let within = &right[..=most_searches as usize];
            assert!(within.windows(2).all(|w| w[0] > w[1]), "{right:?}");
            assert!(right.iter().all(|v| *v > value(options(), &searching(1, "8")).unwrap()));
        }
    }

    #[test]
    fn impossible_options_are_rejected() {
        assert_eq!(KnowledgeBoundaryOptions::default().check(), []);
        let bad = KnowledgeBoundaryOptions { most_searches: 0, searched: 1.0, ..KnowledgeBoundaryOptions::default() };
        assert_eq!(bad.check().iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/most_searches", "/searched"]);
    }
}

//! Defines the trait of rewards, and the data available to them.
//!
//! Rewards see the whole group because some published ones compare an episode with the others of its problem. Scoring
//! is pure: values kept across steps enter through [`Reward::observe`] and are saved by [`Reward::save`], so a resumed
//! run scores as the uninterrupted one. A reward that cannot be computed is an error and never a low score.

use crate::calls::executed;
use crate::rewards::RewardContext;
use crate::verifiers;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Problem, Trajectory};

/// A reward's score of one episode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Score {
    /// Value; `None` if the reward does not apply (no tool call to judge, no messages recorded) and enters no sum.
    pub value: Option<f64>,
    /// One value per agent turn, or empty.
    pub per_turn: Vec<f64>,
}

impl Score {
    /// Returns a value for the whole episode.
    pub fn of(value: f64) -> Self {
        Self { value: Some(value), ..Self::default() }
    }
    /// Returns the score of a reward that does not apply to the episode.
    pub fn not_applicable() -> Self {
        Self::default()
    }
}

/// Data available to a reward in addition to the episode.
#[derive(Debug, Clone, Copy)]
pub struct GroupView<'a> {
    /// Current step, from 0.
    pub step: u64,
    /// Number of steps of the run.
    pub steps: u64,
    /// All finished episodes of the problem in this step, in sample order, without infrastructure failures.
    pub members: &'a [&'a Trajectory],
    /// Whether each member's answer is correct.
    pub correct: &'a [bool],
    /// Values that the rewards earlier in the list gave each member, by name. Empty outside of a list of rewards.
    pub earlier: &'a [BTreeMap<String, f64>],
}

impl<'a> GroupView<'a> {
    /// Returns the view outside of RL: a single episode in the first of one step.
    pub fn alone(member: &'a [&'a Trajectory; 1], correct: &'a [bool; 1]) -> Self {
        Self { step: 0, steps: 1, members: member, correct, earlier: &[] }
    }
    /// Returns whether the answer of `r` is correct. The group decides for members, and the problem's verifier, if this
    /// crate has it, for other episodes.
    pub fn right(&self, r: &Trajectory, p: &Problem) -> bool {
        let member = self.members.iter().position(|m| std::ptr::eq(*m, r));
        member.and_then(|at| self.correct.get(at).copied()).unwrap_or_else(|| verified(r, p))
    }
    /// Returns the values of the earlier rewards for `r`; `None` if `r` is not a member or no reward is earlier.
    pub fn earlier(&self, r: &Trajectory) -> Option<&'a BTreeMap<String, f64>> {
        self.earlier.get(self.members.iter().position(|m| std::ptr::eq(*m, r))?)
    }
    /// Returns the members with correct answers.
    pub fn right_ones(&self) -> impl Iterator<Item = &'a Trajectory> {
        self.members.iter().zip(self.correct).filter(|(_, right)| **right).map(|(member, _)| *member)
    }
}

/// A group of episodes of one problem, to be scored.
#[derive(Debug, Clone, Copy)]
pub struct ScoringGroup<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Finished episodes of the problem.
    pub group: GroupView<'a>,
}

/// One reward with its options.
pub trait Reward: Send + Sync {
    /// Scores an episode. Pure: equal episodes in equal groups score equally between calls of [`Reward::observe`].
    /// Never called for infrastructure failures.
    ///
    /// Errors: of kind retryable, if the service or program that computes the reward is unavailable; of kind data or
    /// invalid, if it cannot judge this episode. Both end the stage.
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score>;
    /// Updates values kept across steps. Called once per group before any member is scored.
    fn observe(&mut self, _p: &Problem, _g: &GroupView<'_>) {}
    /// Observes and scores several groups in order, one score per member. Remote rewards send all of them together.
    fn score_all(&mut self, groups: &[ScoringGroup<'_>]) -> Result<Vec<Vec<Score>>> {
        let score_group = |ScoringGroup { problem, group }: &ScoringGroup<'_>| {
            self.observe(problem, group);
            group.members.iter().map(|member| self.score(member, problem, group)).collect()
        };
        groups.iter().map(score_group).collect()
    }
    /// Opens the reward in a context, once before anything is scored.
    fn open(&mut self, _context: &RewardContext) -> Result<()> {
        Ok(())
    }
    /// Returns named values since the last call of this method, under names that the options declare.
    fn metrics(&mut self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
    /// Returns the state on which later scores depend; null if the reward is stateless.
    fn save(&self) -> Value {
        Value::Null
    }
    /// Restores the result of [`Reward::save`]; null restores the initial state. Fails with kind `data` on any other
    /// value.
    fn load(&mut self, state: Value) -> Result<()> {
        if state.is_null() {
            Ok(())
        } else {
            Err(Error::data("this reward has no state, but the checkpoint contains state for it"))
        }
    }
}

/// Returns whether the problem's verifier accepts the answer of an episode. False if this crate does not have the
/// verifier; a missing answer is incorrect.
pub fn verified(r: &Trajectory, p: &Problem) -> bool {
    r.answer.as_deref().is_some_and(|answer| verifiers::verify(p, answer))
}

/// Returns the agent's turns with their positions in `messages`, without assistant messages of the prompt.
pub(crate) fn agent_turns<'a>(r: &'a Trajectory, p: &Problem) -> Vec<(usize, &'a Message)> {
    let prompt_turns = p.messages.iter().filter(|m| m.role == "assistant").count();
    r.messages.iter().enumerate().filter(|(_, m)| m.role == "assistant").skip(prompt_turns).collect()
}

/// Returns the names of the tools that ran, one per call with a result; limited to the names in `of` unless it is
/// empty.
pub(crate) fn tools_that_ran(r: &Trajectory, p: &Problem, of: &[String]) -> Vec<String> {
    let names = agent_turns(r, p).into_iter().flat_map(|(at, _)| executed(&r.messages, at)).map(|call| call.name);
    names.filter(|name| of.is_empty() || of.contains(name)).collect()
}

/// Returns the score of a single episode, judged by its problem's verifier.
#[cfg(test)]
pub(crate) fn score_alone(reward: &dyn Reward, r: &Trajectory, p: &Problem) -> Score {
    reward.score(r, p, &GroupView::alone(&[r], &[verified(r, p)])).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Reward for Plain {
        fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
            Ok(Score::of(f64::from(u8::from(g.right(r, p)))))
        }
    }

    fn answering(answer: &str) -> Trajectory {
        Trajectory { answer: Some(answer.to_string()), ..Trajectory::default() }
    }

    #[test]
    fn group_judges_members_and_verifier_judges_others() {
        let p = Problem { answer: "7".to_string(), ..Problem::default() };
        let (right, wrong) = (answering("7"), answering("8"));
        assert_eq!(score_alone(&Plain, &right, &p).value, Some(1.0));
        assert_eq!(score_alone(&Plain, &wrong, &p).value, Some(0.0));
        let g = GroupView { step: 0, steps: 1, members: &[&right, &wrong], correct: &[false, true], earlier: &[] };
        assert!(!g.right(&right, &p) && g.right(&wrong, &p));
        assert!(g.right(&right.clone(), &p), "a copy is not a member");
        assert_eq!(g.right_ones().collect::<Vec<_>>(), [&wrong]);
    }

    #[test]
    fn stateless_reward_rejects_state() {
        assert!(Plain.save().is_null());
        assert!(Plain.load(Value::Null).is_ok());
        assert_eq!(Plain.load(Value::from(1)).unwrap_err().kind, trainyard_core::ErrorKind::Data);
    }

    #[test]
    fn prompt_turns_are_not_the_agents() {
        let shown = [Message::new("user", "1+1?"), Message::new("assistant", "2"), Message::new("user", "2+2?")];
        let p = Problem { messages: shown.to_vec(), ..Problem::default() };
        let mut messages = vec![Message::new("system", "")];
        messages.extend(shown);
        messages.push(Message::new("assistant", "4"));
        let r = Trajectory { messages, ..Trajectory::default() };
        assert_eq!(agent_turns(&r, &p), [(4, &r.messages[4])]);
        assert_eq!(agent_turns(&r, &Problem::default()).len(), 2);
    }
}

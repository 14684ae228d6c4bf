//! Computes step labels by Monte-Carlo rollouts: the policy's success rate from each prefix of an episode.
//!
//! Neither human labels nor a stronger model are needed (Math-Shepherd, 2312.08935). A prefix ends at the end of a
//! step, so its continuations replay the turns before this end in a new environment and continue sampling in the middle
//! of a turn. The label of the last step is the outcome itself. Equal prefixes are continued once. If an environment
//! responds differently to a replay, the stage fails.

use super::config::PrmConfig;
use crate::config::kv_memory;
use crate::contexts::expect_one_context;
use crate::model::PolicyModel;
use crate::rollouts::{EpisodeJob, EpisodeLimits, EpisodeStart, RolloutDriver, ToolWait};
use std::collections::BTreeMap;
use trainyard_api::StageContext;
use trainyard_core::{Chance, Error, Result};
use trainyard_envs::Environment;
use trainyard_learn::{EpisodePrefix, Rollout};
use trainyard_lm::backend::Sampler;
use trainyard_tables::{Problem, Trajectory};

/// Number of prefixes whose continuations run in one call. It is large, because each call waits for its longest
/// episode.
const PREFIXES_PER_CALL: usize = 1024;

/// The policy's rollouts with a label per step, and the counts of the labeling.
pub struct LabeledRollouts {
    /// Rollouts with `step_ends` and `step_labels`.
    pub rows: Vec<Trajectory>,
    /// Number of distinct prefixes that were continued.
    pub prefixes: usize,
    /// Number of rollouts that an infrastructure failure ended; they are not in `rows`.
    pub failures: usize,
    /// Counts of rows that cannot be used for training.
    pub left_out: OmittedRows,
}

/// Counts of omitted input rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmittedRows {
    /// Rows without step labels.
    pub unlabeled: usize,
    /// Rows longer than the model's positions.
    pub too_long: usize,
}

impl std::ops::AddAssign for OmittedRows {
    fn add_assign(&mut self, other: Self) {
        self.unlabeled += other.unlabeled;
        self.too_long += other.too_long;
    }
}

/// Inputs of Monte-Carlo labeling.
pub struct Labeler<'a> {
    pub config: &'a PrmConfig,
    /// Policy that samples rollouts and continuations.
    pub policy: &'a PolicyModel,
    pub environment: &'a dyn Environment,
    pub problems: &'a [Problem],
    /// Source of all random draws.
    pub chance: Chance,
}

/// A prefix to continue.
struct LabelPrefix {
    problem: usize,
    end: usize,
    tokens: Vec<u32>,
    start: EpisodeStart,
    /// (row, step) pairs that get the label of the prefix.
    users: Vec<(usize, usize)>,
}

impl Labeler<'_> {
    /// Samples rollouts, continues each from the end of every step, and labels the steps with the share of
    /// continuations that succeed. Errors: data, if a replay differs; invalid, if a rollout has several contexts;
    /// cancelled.
    pub fn run(&self, context: &StageContext) -> Result<LabeledRollouts> {
        let mut sampler = self.policy.sampler(context.cpus)?;
        let rollouts = self.rollouts(&mut *sampler, context)?;
        let failures = rollouts.iter().filter(|r| r.failed()).count();
        let rollouts: Vec<Rollout> = rollouts.into_iter().filter(|r| !r.failed()).collect();
        let problems: Vec<usize> = rollouts.iter().map(|r| r.problem).collect();
        let mut rows = rollouts.into_iter().map(|r| self.prepare(r)).collect::<Result<Vec<Trajectory>>>()?;
        let prefixes = prefixes(&rows, &problems);
        self.label(&mut *sampler, &prefixes, &mut rows, context)?;
        Ok(LabeledRollouts { rows, prefixes: prefixes.len(), failures, left_out: OmittedRows::default() })
    }

    /// Samples `rollouts` episodes per problem.
    fn rollouts(&self, sampler: &mut dyn Sampler, context: &StageContext) -> Result<Vec<Rollout>> {
        let jobs: Vec<EpisodeJob> = (0..self.problems.len())
            .flat_map(|i| (0..self.config.rollouts).map(move |s| EpisodeJob::root(i, s)))
            .collect();
        self.driver(sampler, "prm/rollout", self.chance.child("rollouts", &[]), context).run(self.problems, &jobs)
    }

    fn driver<'b>(
        &'b self,
        sampler: &'b mut dyn Sampler,
        name: &str,
        chance: Chance,
        context: &'b StageContext,
    ) -> RolloutDriver<'b, 'b> {
        let s = &self.config.sampling;
        RolloutDriver {
            sampler,
            model: &self.policy.folder,
            environment: self.environment,
            limits: EpisodeLimits {
                turn_tokens: s.max_turn_tokens,
                episode_tokens: s.max_episode_tokens,
                running: s.max_running,
                kv_memory: kv_memory(s.kv_memory.as_deref()),
                tool_wait: ToolWait::Trajectory,
            },
            sampling: s.distribution(),
            chance,
            name: name.to_string(),
            cancel: &context.cancel,
        }
    }

    /// Sets the steps and the last label of a rollout; the other labels stay unknown. Errors: invalid, if the rollout
    /// has several contexts.
    fn prepare(&self, one: Rollout) -> Result<Trajectory> {
        let mut row = one.trajectory;
        expect_one_context([&row], "the policy's rollouts")?;
        row.step_ends =
            self.config.steps.ends(self.policy.folder.chat.tokenizer(), &row.token_ids, &row.loss_mask, &row.turn)?;
        let mut labels = vec![f32::NAN; row.step_ends.len()];
        let outcome = f32::from(u8::from(one.correct));
        labels.last_mut().into_iter().for_each(|l| *l = outcome);
        row.step_labels = Some(labels);
        row.reward = f64::from(outcome);
        row.rewards = BTreeMap::from([("answer".to_string(), row.reward)]);
        row.model_digest = Some(self.policy.digest.clone());
        Ok(row)
    }

    fn label(
        &self,
        sampler: &mut dyn Sampler,
        prefixes: &[LabelPrefix],
        rows: &mut [Trajectory],
        context: &StageContext,
    ) -> Result<()> {
        let k = self.config.continuations;
        let chance = self.chance.child("continuations", &[]);
        for (n, some) in prefixes.chunks(PREFIXES_PER_CALL).enumerate() {
            let first = n * PREFIXES_PER_CALL;
            let job = |i: usize, p: &LabelPrefix, s: u32| EpisodeJob {
                problem: p.problem,
                draw: (first + i) as u64,
                group: i as u32,
                sample: s,
                start: p.start.clone(),
                ..EpisodeJob::default()
            };
            let jobs: Vec<EpisodeJob> =
                some.iter().enumerate().flat_map(|(i, p)| (0..k).map(move |s| job(i, p, s))).collect();
            let finished = self.driver(sampler, "prm/continuation", chance, context).run(self.problems, &jobs)?;
            for (prefix, group) in some.iter().zip(finished.chunks(k as usize)) {
                let label = success_share(prefix, group)?;
                for &(row, step) in &prefix.users {
                    if let Some(labels) = &mut rows[row].step_labels {
                        labels[step] = label;
                    }
                }
            }
            context.progress((first + some.len()) as u64, prefixes.len() as u64, "prefixes", None);
        }
        Ok(())
    }
}

/// Returns the share of correct episodes among the continuations without failures, or NaN if all failed. Errors: data,
/// if a continuation does not begin with the prefix.
fn success_share(prefix: &LabelPrefix, group: &[Rollout]) -> Result<f32> {
    for one in group.iter().filter(|f| !f.failed()) {
        if one.trajectory.token_ids.get(..prefix.end) != Some(prefix.tokens.as_slice()) {
            return Err(Error::data(format!(
                "the environment responded to rollout `{}` differently when it was replayed",
                one.trajectory.id
            ))
            .help("use tools whose results depend on their arguments alone"));
        }
    }
    let counted: Vec<bool> = group.iter().filter(|f| !f.failed()).map(|f| f.correct).collect();
    Ok(counted.iter().filter(|c| **c).count() as f32 / counted.len() as f32)
}

/// Returns the distinct prefixes of all rows, each with the steps that it labels. A row's last step is left out.
fn prefixes(rows: &[Trajectory], problems: &[usize]) -> Vec<LabelPrefix> {
    let mut places: BTreeMap<(usize, &[u32]), usize> = BTreeMap::new();
    let mut list: Vec<LabelPrefix> = Vec::new();
    for (r, row) in rows.iter().enumerate() {
        for (step, &end) in row.step_ends.iter().enumerate().take(row.step_ends.len().saturating_sub(1)) {
            let tokens = &row.token_ids[..end as usize];
            let place = *places.entry((problems[r], tokens)).or_insert_with(|| {
                list.push(LabelPrefix {
                    problem: problems[r],
                    end: end as usize,
                    tokens: tokens.to_vec(),
                    start: start(row, end as usize),
                    users: Vec::new(),
                });
                list.len() - 1
            });
            list[place].users.push((r, step));
        }
    }
    list
}

/// Returns the start of a continuation: the turns completed at `end`, and the sampled tokens of the incomplete turn.
fn start(row: &Trajectory, end: usize) -> EpisodeStart {
    let (mut turns, mut partial) = (Vec::new(), Vec::new());
    for t in 0..end {
        if !row.loss_mask[t] {
            continue;
        }
        partial.push(row.token_ids[t]);
        let over = t + 1 == row.token_ids.len() || !row.loss_mask[t + 1] || row.turn[t + 1] != row.turn[t];
        if over {
            turns.push(std::mem::take(&mut partial));
        }
    }
    EpisodeStart::Prefix(EpisodePrefix { turns, partial, ..EpisodePrefix::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ends: &[u32]) -> Trajectory {
        Trajectory {
            token_ids: vec![9, 9, 1, 2, 3, 8, 4, 5],
            loss_mask: vec![false, false, true, true, true, false, true, true],
            turn: vec![0, 0, 0, 0, 0, 1, 1, 1],
            step_ends: ends.to_vec(),
            ..Trajectory::default()
        }
    }

    #[test]
    fn a_prefix_is_cut_into_whole_turns_and_a_partial_one() {
        let cut = |end| match start(&row(&[]), end) {
            EpisodeStart::Prefix(p) => (p.turns, p.partial),
            EpisodeStart::Root => unreachable!(),
        };
        assert_eq!(cut(4), (vec![], vec![1, 2]));
        assert_eq!(cut(5), (vec![vec![1, 2, 3]], vec![]));
        assert_eq!(cut(7), (vec![vec![1, 2, 3]], vec![4]));
    }

    #[test]
    fn equal_prefixes_of_one_problem_are_continued_once() {
        let rows = [row(&[4, 5, 8]), row(&[4, 8]), row(&[4, 8])];
        let list = prefixes(&rows, &[0, 0, 1]);
        let users: Vec<Vec<(usize, usize)>> = list.into_iter().map(|p| p.users).collect();
        assert_eq!(users, [vec![(0, 0), (1, 0)], vec![(0, 1)], vec![(2, 0)]]);
    }
}

//! Counts the right and the wrong attempts at each problem.

use super::ranking::GroupNumbers;
use super::rows::RuleRows;
use crate::row_files::RowFiles;
use std::collections::BTreeSet;
use std::path::PathBuf;
use trainyard_core::{Error, Result};
use trainyard_tables::{EpisodeStatus, Trajectory};

/// Columns from which attempts are counted.
pub const ATTEMPT_COLUMNS: [&str; 3] = ["problem_id", "rewards", "status"];

/// Attempts at a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// Attempts with a reward of at least the threshold.
    pub right: u32,
    /// Attempts with a lower reward.
    pub wrong: u32,
}

impl Attempts {
    /// Returns the number of attempts.
    pub fn all(self) -> u32 {
        self.right + self.wrong
    }
    /// Returns the share of right attempts; `None` without any attempt.
    pub fn pass_rate(self) -> Option<f64> {
        (self.all() > 0).then(|| f64::from(self.right) / f64::from(self.all()))
    }
}

/// Attempts by problem. A row counts if its episode does and it has the reward component.
pub struct AttemptCounts<'a> {
    reward: &'a str,
    threshold: f64,
    problems: GroupNumbers,
    attempts: Vec<Attempts>,
    /// Whether there are rows.
    has_rows: bool,
    /// Whether a row has the reward component.
    has_reward: bool,
    /// Names of other components, in case no row has this one.
    others: BTreeSet<String>,
}

impl<'a> AttemptCounts<'a> {
    /// Starts with no attempt. An attempt is right if its reward component `reward` is at least `threshold`.
    pub fn new(reward: &'a str, threshold: f64) -> Self {
        Self {
            reward,
            threshold,
            problems: GroupNumbers::default(),
            attempts: Vec::new(),
            has_rows: false,
            has_reward: false,
            others: BTreeSet::new(),
        }
    }
    /// Adds rows, which have [`ATTEMPT_COLUMNS`].
    pub fn add(&mut self, rows: &RuleRows) -> Result<()> {
        for row in rows.part(&ATTEMPT_COLUMNS)?.trajectories()? {
            self.has_rows = true;
            let Some(reward) = row.rewards.get(self.reward) else {
                if !self.has_reward {
                    self.others.extend(row.rewards.keys().cloned());
                }
                continue;
            };
            self.has_reward = true;
            if row.status == EpisodeStatus::Ok {
                self.count(&row.problem_id, *reward >= self.threshold);
            }
        }
        Ok(())
    }
    /// Adds the rows of files. Errors: data (a file without the columns of trajectories).
    pub fn add_files(&mut self, files: &[PathBuf]) -> Result<()> {
        let columns = ATTEMPT_COLUMNS.map(String::from);
        let files = RowFiles::<Trajectory>::strict(files);
        files.each_batch(Some(&columns), |path, batch| self.add(&RuleRows::new(path, batch.clone())))
    }
    /// Returns the attempts at a problem.
    pub fn of(&self, problem: &str) -> Attempts {
        self.problems.find(problem).map_or_else(Attempts::default, |number| self.attempts[number as usize])
    }
    /// Checks, once all rows were added, that one of them has the reward component. Errors: data, with the components
    /// of the rows in the help.
    pub fn expect_reward(&self) -> Result<()> {
        if self.has_reward || !self.has_rows {
            return Ok(());
        }
        let names = self.others.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let known = if names.is_empty() { "they have no components".into() } else { format!("they have: {names}") };
        Err(Error::data(format!("no row has the reward component `{}`", self.reward))
            .help(format!("set `reward` to a component of the rows; {known}")))
    }

    fn count(&mut self, problem: &str, right: bool) {
        let number = self.problems.number(problem) as usize;
        if number == self.attempts.len() {
            self.attempts.push(Attempts::default());
        }
        let attempts = &mut self.attempts[number];
        if right { attempts.right += 1 } else { attempts.wrong += 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Trajectory;

    fn row(problem: &str, component: &str, reward: f64) -> Trajectory {
        Trajectory {
            problem_id: problem.into(),
            rewards: [(component.to_string(), reward)].into(),
            ..Trajectory::default()
        }
    }

    #[test]
    fn only_episodes_that_count_and_have_the_reward_are_attempts() {
        let lost = Trajectory { status: EpisodeStatus::Infrastructure, ..row("p", "answer", 0.0) };
        let rows = [
            row("p", "answer", 1.0),
            row("q", "answer", 0.5),
            row("p", "answer", 0.4),
            lost,
            row("p", "style", 1.0),
            row("p", "answer", f64::NAN),
        ];
        let mut counts = AttemptCounts::new("answer", 0.5);
        for rows in rows.chunks(4) {
            counts.add(&RuleRows::of(&rows.iter().collect::<Vec<_>>()).unwrap()).unwrap();
        }
        counts.expect_reward().unwrap();
        assert_eq!(counts.of("p"), Attempts { right: 1, wrong: 2 });
        assert_eq!((counts.of("q").pass_rate(), counts.of("r").pass_rate()), (Some(1.0), None));
    }

    #[test]
    fn an_unknown_reward_is_an_error_that_lists_those_of_the_rows() {
        let mut counts = AttemptCounts::new("answr", 0.5);
        counts.expect_reward().unwrap();
        let rows = [row("p", "style", 1.0), row("p", "answer", 1.0)];
        counts.add(&RuleRows::of(&rows.iter().collect::<Vec<_>>()).unwrap()).unwrap();
        let error = counts.expect_reward().unwrap_err();
        assert!(error.message.contains("`answr`"), "{}", error.message);
        assert!(error.help.unwrap().ends_with("they have: answer, style"));
    }
}

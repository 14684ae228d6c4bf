//! Plays graded solutions in the environment and labels their steps.

use crate::annotation::Calculation;
use crate::import::gsm8k_solutions::final_line_answer;
use crate::solutions::Solution;
use crate::synthesize::annotated::{agreements, convert, tool};
use crate::synthesize::play::{EpisodeScript, ScriptedResult, play};
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_envs::Environment;
use trainyard_tables::{Problem, Trajectory};

/// Counts of solutions, steps and labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepLabelCounts {
    /// Solutions with a trajectory.
    pub solutions: usize,
    /// Solutions graded as correct.
    pub outcomes_correct: usize,
    pub steps: usize,
    /// Steps labeled 0 because they state a calculation that does not hold.
    pub labeled_calculation: usize,
    /// Last steps, labeled by the outcome.
    pub labeled_outcome: usize,
    /// Steps without a label.
    pub unlabeled: usize,
    pub annotations: usize,
    /// Calculations that were executed.
    pub executed: usize,
    /// Executed calculations that hold.
    pub agreeing: usize,
    /// Executed calculations that do not hold.
    pub failing: usize,
    /// Calculations whose call failed or whose values are not numbers.
    pub not_executable: usize,
    /// Solutions dropped because a calculation hit its time limit.
    pub dropped_time_limit: usize,
}

/// Plays and labels all solutions in order. Solutions that hit a time limit are dropped and counted.
pub fn label(
    rows: &[Solution],
    problems: &BTreeMap<&str, &Problem>,
    environment: &dyn Environment,
    progress: impl FnMut(usize) -> Result<()>,
) -> Result<(Vec<Trajectory>, StepLabelCounts)> {
    let tool = tool(environment)?;
    let texts: Vec<String> = rows.iter().map(|s| in_answer_form(&s.solution)).collect();
    let mut scripts = Vec::with_capacity(rows.len());
    let mut calculations = Vec::with_capacity(rows.len());
    for (row, text) in rows.iter().zip(&texts) {
        let problem = problems
            .get(row.problem_id.as_str())
            .copied()
            .ok_or_else(|| Error::bug(format!("no problem `{}`", row.problem_id)))?;
        let converted = convert(text, environment, &tool)?;
        scripts.push(EpisodeScript {
            id: format!("{}-{}", row.problem_id, row.solver),
            problem,
            turns: converted.turns,
            seed: 0,
        });
        calculations.push(converted.calculations);
    }
    let mut counts = StepLabelCounts::default();
    let mut trajectories = Vec::with_capacity(rows.len());
    for ((played, row), calculations) in play(environment, &scripts, progress)?.into_iter().zip(rows).zip(&calculations)
    {
        if played.timed_out {
            counts.dropped_time_limit += 1;
        } else {
            trajectories.push(labeled(played, row, calculations, &mut counts));
        }
    }
    if trajectories.is_empty() {
        return Err(Error::data("every solution hit the tool's time limit")
            .help("check the solutions, or raise the environment's `limits.time_millis`"));
    }
    Ok((trajectories, counts))
}

/// Replaces the last line `A: 18` by `#### 18`, the answer form of reference solutions and therefore of the policy.
fn in_answer_form(solution: &str) -> String {
    let trimmed = solution.trim_end();
    match (final_line_answer(trimmed), trimmed.rfind("A:")) {
        (Some(answer), Some(at)) => format!("{}#### {answer}", &trimmed[..at]),
        _ => trimmed.to_string(),
    }
}

fn labeled(
    played: ScriptedResult,
    row: &Solution,
    calculations: &[Calculation<'_>],
    counts: &mut StepLabelCounts,
) -> Trajectory {
    let mut trajectory = played.trajectory;
    let agreements = agreements(&trajectory, calculations);
    let mut labels = vec![f32::NAN; played.turns];
    for (step, agreement) in agreements.iter().enumerate() {
        match agreement {
            // The turn after the call states the value.
            Some(false) if step + 1 < labels.len() => labels[step + 1] = 0.0,
            _ => {}
        }
    }
    if let Some(last) = labels.last_mut() {
        *last = f32::from(u8::from(row.correct));
    }
    let outcome = f64::from(u8::from(row.correct));
    counts.solutions += 1;
    counts.outcomes_correct += usize::from(row.correct);
    counts.steps += labels.len();
    counts.labeled_outcome += usize::from(!labels.is_empty());
    let unlabeled = labels.iter().filter(|l| l.is_nan()).count();
    counts.unlabeled += unlabeled;
    counts.labeled_calculation += labels.len() - unlabeled - usize::from(!labels.is_empty());
    counts.annotations += calculations.len();
    counts.executed += agreements.len();
    counts.agreeing += agreements.iter().filter(|a| **a == Some(true)).count();
    counts.failing += agreements.iter().filter(|a| **a == Some(false)).count();
    counts.not_executable += agreements.iter().filter(|a| a.is_none()).count();
    trajectory.step_labels = Some(labels);
    // The reward is the grade of the data set and not the verdict of our verifier, because the labels are about the
    // grade.
    trajectory.rewards = [("outcome".to_string(), outcome)].into();
    trajectory.reward = outcome;
    trajectory
}

#[cfg(test)]
mod tests {
    use super::in_answer_form;

    #[test]
    fn solutions_without_an_answer_line_keep_their_text() {
        assert_eq!(in_answer_form("x\nA: 1,800"), "x\n#### 1800");
        assert_eq!(in_answer_form("x\nThe answer"), "x\nThe answer");
    }
}

//! Computes the paired differences of two models over the problems that both answered.

use super::flips::problems;
use super::samples::{ModelSamples, Sample};
use trainyard_core::statistics::{mean, paired_difference};

/// Mean difference of two models over problems.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedDifference {
    /// Name of the number: `correct (greedy)`, `correct (drawn)` or `reward`.
    pub name: &'static str,
    /// Mean of the first model.
    pub a: f64,
    /// Mean of the second model.
    pub b: f64,
    /// Second minus first.
    pub difference: f64,
    /// 95% interval of the difference, paired by problem; `None` with fewer than two problems.
    pub interval: Option<(f64, f64)>,
    /// Number of problems that both models have.
    pub problems: usize,
}

/// Returns the differences `b − a` of the greedy answer's correctness, of the share of right drawn samples, and of the
/// mean reward of all samples. Numbers that no problem has in both models are left out.
pub fn paired_differences(a: &ModelSamples, b: &ModelSamples) -> Vec<PairedDifference> {
    let share = |is_right: bool| if is_right { 1.0 } else { 0.0 };
    let greedy = |sample: &Sample| sample.correct.filter(|_| sample.number < 0).map(share);
    let drawn = |sample: &Sample| sample.correct.filter(|_| sample.number >= 0).map(share);
    let reward = |sample: &Sample| sample.reward.filter(|reward| reward.is_finite());
    let all = [
        paired("correct (greedy)", a, b, greedy),
        paired("correct (drawn)", a, b, drawn),
        paired("reward", a, b, reward),
    ];
    all.into_iter().flatten().collect()
}

/// Pairs the means over the samples of each problem. Every problem counts once.
fn paired(
    name: &'static str,
    a: &ModelSamples,
    b: &ModelSamples,
    value: impl Fn(&Sample) -> Option<f64>,
) -> Option<PairedDifference> {
    let of = |model: &ModelSamples, problem: &str| mean(&model.of(problem).filter_map(&value).collect::<Vec<f64>>());
    let pairs = problems(a, b).into_iter().filter_map(|problem| Some((of(a, problem)?, of(b, problem)?)));
    let (of_a, of_b): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let clusters: Vec<usize> = (0..of_a.len()).collect();
    let found = paired_difference(&of_b, &of_a, &clusters)?;
    Some(PairedDifference {
        name,
        a: found.b,
        b: found.a,
        difference: found.difference.value,
        interval: found.difference.interval(),
        problems: of_a.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(samples: &[(&str, i64, bool)]) -> ModelSamples {
        let mut model = ModelSamples::new("m", 0);
        for (problem, number, is_right) in samples {
            model.add(Sample {
                problem: (*problem).into(),
                number: *number,
                correct: Some(*is_right),
                reward: Some(if *is_right { 2.0 } else { 0.0 }),
                ..Sample::default()
            });
        }
        model
    }

    #[test]
    fn differences_are_second_minus_first_over_shared_problems() {
        let a = model(&[("p1", -1, true), ("p2", -1, false), ("p3", -1, false), ("p4", -1, true), ("only", -1, true)]);
        let b = model(&[("p1", -1, true), ("p2", -1, true), ("p3", -1, true), ("p4", -1, true)]);
        let found = paired_differences(&a, &b);
        let names: Vec<&str> = found.iter().map(|row| row.name).collect();
        assert_eq!(names, ["correct (greedy)", "reward"], "no sample was drawn");
        let greedy = &found[0];
        assert_eq!((greedy.a, greedy.b, greedy.difference, greedy.problems), (0.5, 1.0, 0.5, 4));
        // Differences 0, 1, 1, 0: Σr² = 1, SE² = 1/(4·3), so ± 1.96/√12.
        let (low, high) = greedy.interval.unwrap();
        let half = 1.959_963_984_540_054 / 12f64.sqrt();
        assert!((low - (0.5 - half)).abs() < 1e-12 && (high - (0.5 + half)).abs() < 1e-12, "{low} {high}");
        assert_eq!(found[1].difference, 1.0);
    }

    #[test]
    fn every_problem_counts_once_however_many_samples_it_has() {
        let a = model(&[("p1", 0, true), ("p1", 1, false), ("p2", 0, false)]);
        let b = model(&[("p1", 0, true), ("p2", 0, false), ("p2", 1, false), ("p2", 2, false)]);
        let drawn = &paired_differences(&a, &b)[0];
        assert_eq!((drawn.name, drawn.a, drawn.b, drawn.difference), ("correct (drawn)", 0.25, 0.5, 0.25));
        assert!(paired_differences(&a, &ModelSamples::default()).is_empty());
    }
}

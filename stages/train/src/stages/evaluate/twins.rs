//! Finds test problems that occur in training in other words, and computes the models' accuracy on the other ones.
//!
//! Two problems are twins if their questions are equal once numbers, names and the generator's exchangeable words are
//! masked: the steps of the solution are then the same, only the numbers differ. Twins are allowed (a short story has
//! few forms), but accuracy on them is weak evidence about new problems.

use crate::results::ResultRow;
use crate::stages::compare::{ProblemMetric, ProblemPairs};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::Result;
use trainyard_learn::statistics::wilson;
use trainyard_tables::Problem;

/// Test problems that resemble training problems.
pub struct Twins {
    /// Ids of test problems with a masked twin.
    twins: BTreeSet<String>,
    /// Number of test problems that are also training problems: equal canonical forms or questions.
    repeats: usize,
    tests: usize,
    /// (twins, problems) by level.
    levels: BTreeMap<u32, (usize, usize)>,
}

impl Twins {
    /// Finds the twins and the repeats among `tests`. `decoration`: words that the problems' generator exchanges
    /// freely.
    pub fn find(tests: &[Problem], training: &[Problem], decoration: &[&str]) -> Self {
        let masked: BTreeSet<String> = training.iter().map(|p| mask(p.question(), decoration)).collect();
        let forms: BTreeSet<&str> = training.iter().map(|p| p.canonical.as_str()).filter(|f| !f.is_empty()).collect();
        let questions: BTreeSet<&str> = training.iter().map(Problem::question).collect();
        let mut found = Self { twins: BTreeSet::new(), repeats: 0, tests: tests.len(), levels: BTreeMap::new() };
        for test in tests {
            let twin = masked.contains(&mask(test.question(), decoration));
            let level = found.levels.entry(test.level).or_default();
            *level = (level.0 + usize::from(twin), level.1 + 1);
            if twin {
                found.twins.insert(test.id.clone());
            }
            let repeat = forms.contains(test.canonical.as_str()) || questions.contains(test.question());
            found.repeats += usize::from(repeat);
        }
        found
    }

    /// Writes the shares of twins and repeats, and greedy accuracy and its differences without the twins.
    pub fn write(
        &self,
        names: &[String],
        rows: &[Vec<ResultRow>],
        context: &mut StageContext,
        report: &mut StageReport,
    ) -> Result<()> {
        let share = |count: usize| count as f64 / self.tests.max(1) as f64;
        for (name, value) in [("training_twins", share(self.twins.len())), ("training_repeats", share(self.repeats))] {
            context.metric(name, value);
            report.metric(name, value);
        }
        let mut table = Table::new("Test problems with a training twin", ["level", "share", "twins", "problems"]);
        for (level, (twins, all)) in &self.levels {
            let numbers = [*twins as f64 / *all as f64, *twins as f64, *all as f64].map(ReportCell::number);
            table.row(std::iter::once(ReportCell::text(level.to_string())).chain(numbers));
        }
        report.table(table);
        self.accuracies(names, rows, context, report)?;
        report.note(
            "A training twin is a training problem whose question is equal once numbers, names and exchangeable \
             words are masked; `training_repeats` counts test problems that are training problems themselves.",
        );
        Ok(())
    }

    fn accuracies(
        &self,
        names: &[String],
        rows: &[Vec<ResultRow>],
        context: &mut StageContext,
        report: &mut StageReport,
    ) -> Result<()> {
        let mut table = Table::new("Greedy accuracy without twins", ["models", "accuracy or difference", "problems"]);
        let rest: Vec<Vec<&ResultRow>> =
            rows.iter().map(|rows| rows.iter().filter(|r| !self.twins.contains(&r.problem_id)).collect()).collect();
        for (name, rows) in names.iter().zip(&rest) {
            let right: Vec<f64> = ProblemMetric::Accuracy.by_problem(rows)?.into_values().collect();
            if right.is_empty() {
                continue;
            }
            let sum: f64 = right.iter().sum();
            let (value, interval) = (sum / right.len() as f64, wilson(sum.round() as usize, right.len()));
            let metric = format!("accuracy_without_twins_{name}");
            context.metric(&metric, value);
            report.estimate(metric, value, interval, right.len() as u64);
            table.row([
                ReportCell::text(name),
                ReportCell::interval(value, interval),
                ReportCell::number(right.len() as f64),
            ]);
        }
        for later in 1..names.len() {
            for earlier in 0..later {
                let (a, b) = (rest[later].iter().copied(), rest[earlier].iter().copied());
                let Some(found) = ProblemPairs::new(a, b, ProblemMetric::Accuracy)?.difference(None) else { continue };
                let (difference, interval) = (found.difference, found.difference.interval());
                let metric = format!("difference_without_twins_{}_{}", names[later], names[earlier]);
                context.metric(&metric, difference.value);
                if let Some((low, high)) = interval {
                    context.metric(format!("{metric}_low"), low);
                    context.metric(format!("{metric}_high"), high);
                }
                report.estimate(metric, difference.value, interval, difference.clusters as u64);
                table.row([
                    ReportCell::text(format!("{} − {}", names[later], names[earlier])),
                    ReportCell::interval(difference.value, interval),
                    ReportCell::number(difference.n as f64),
                ]);
            }
        }
        if !table.rows.is_empty() {
            report.table(table);
        }
        Ok(())
    }
}

/// Returns a question with `#` for every number and `@` for every capitalized or `decoration` word; white space becomes
/// one blank.
pub fn mask(question: &str, decoration: &[&str]) -> String {
    let mut masked: Vec<String> = Vec::new();
    let mut rest = question.chars().peekable();
    while let Some(first) = rest.next() {
        if first.is_ascii_digit() {
            // 1,200 and 4.5 are single numbers; the full stop of a sentence is not part of a number.
            while let Some(&next) = rest.peek() {
                let mut ahead = rest.clone();
                ahead.next();
                let inside = matches!(next, ',' | '.') && ahead.peek().is_some_and(char::is_ascii_digit);
                if !next.is_ascii_digit() && !inside {
                    break;
                }
                rest.next();
            }
            masked.push("#".to_string());
        } else if first.is_alphabetic() {
            let mut word = String::from(first);
            while let Some(next) = rest.next_if(|c| c.is_alphanumeric()) {
                word.push(next);
            }
            let decorative = first.is_uppercase() || decoration.contains(&word.as_str());
            masked.push(if decorative { "@".to_string() } else { word });
        } else if !first.is_whitespace() {
            masked.push(first.to_string());
        }
    }
    masked.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    fn problem(id: &str, level: u32, canonical: &str, question: &str) -> Problem {
        Problem {
            id: id.into(),
            level,
            canonical: canonical.into(),
            messages: vec![Message::new("user", question)],
            ..Problem::default()
        }
    }

    #[test]
    fn numbers_names_and_decoration_are_masked() {
        assert_eq!(mask("Ann has 1,200 figs. She buys 4.5 more.", &["figs"]), "@ has # @ . @ buys # more .");
        assert_eq!(mask("Ann has 7.", &[]), mask("Tom  has 12.", &[]));
        assert_ne!(mask("Ann has 7.", &[]), mask("Ann had 7.", &[]));
        assert_ne!(mask("Ann has 7 figs.", &[]), mask("Ann has 7 pens.", &[]));
    }

    #[test]
    fn twins_are_counted_by_level_and_left_out_of_the_accuracy() {
        let training = [problem("t1", 1, "x=1", "Ann has 1 fig."), problem("t2", 1, "x=2", "Who owns 3?")];
        let tests = [
            problem("a", 1, "x=9", "Bob has 9 fig."),
            problem("b", 2, "x=2", "What is left of 5?"),
            problem("c", 2, "", "What is gone?"),
        ];
        let twins = Twins::find(&tests, &training, &[]);
        assert_eq!(twins.twins, BTreeSet::from(["a".to_string()]));
        assert_eq!((twins.repeats, &twins.levels), (1, &BTreeMap::from([(1, (1, 1)), (2, (0, 2))])));
        let row = |id: &str, right: bool| ResultRow {
            problem_id: id.into(),
            sample: -1,
            correct: Some(right),
            ..ResultRow::default()
        };
        let names = ["sft".to_string(), "rl".to_string()];
        let sft = vec![row("a", true), row("b", false), row("c", false)];
        let rl = vec![row("a", true), row("b", true), row("c", false)];
        let (mut context, _folder) = crate::testing::context();
        twins.write(&names, &[sft, rl], &mut context, &mut StageReport::new("Evaluation")).unwrap();
        let m = &context.metrics;
        assert_eq!((m["accuracy_without_twins_sft"], m["accuracy_without_twins_rl"]), (0.0, 0.5));
        assert_eq!(m["difference_without_twins_rl_sft"], 0.5);
        assert!((m["training_twins"] - 1.0 / 3.0).abs() < 1e-12 && m["training_repeats"] == m["training_twins"]);
    }
}

//! Lists the problems that one model got right and another one wrong.

use super::samples::ModelSamples;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Maximum number of ids of one list in a text.
const IDS: usize = 50;

/// Problems by the verdicts of two models.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Flips {
    a: String,
    b: String,
    /// Ids of the problems that `a` got right and `b` wrong.
    right_then_wrong: Vec<String>,
    /// Ids of the problems that `a` got wrong and `b` right.
    wrong_then_right: Vec<String>,
    both_right: usize,
    both_wrong: usize,
    /// Number of problems that one of the models did not answer, or whose answer was not judged.
    not_compared: usize,
}

impl Flips {
    /// Compares the samples of this number, by default the first ones, on every problem of one of the models.
    pub fn between(a: &ModelSamples, b: &ModelSamples, sample: Option<i64>) -> Self {
        let mut flips = Self {
            a: a.name.clone(),
            b: b.name.clone(),
            right_then_wrong: Vec::new(),
            wrong_then_right: Vec::new(),
            both_right: 0,
            both_wrong: 0,
            not_compared: 0,
        };
        let mut known = HashSet::new();
        for problem in a.samples.iter().chain(&b.samples).map(|sample| sample.problem.as_str()) {
            if !known.insert(problem) {
                continue;
            }
            let correct = |model: &ModelSamples| model.sample(problem, sample)?.correct;
            match (correct(a), correct(b)) {
                (Some(true), Some(false)) => flips.right_then_wrong.push(problem.to_string()),
                (Some(false), Some(true)) => flips.wrong_then_right.push(problem.to_string()),
                (Some(true), Some(true)) => flips.both_right += 1,
                (Some(false), Some(false)) => flips.both_wrong += 1,
                (None, _) | (_, None) => flips.not_compared += 1,
            }
        }
        flips
    }

    /// Formats both lists with their counts, and the command that shows the first of these problems.
    pub fn text(&self, artifacts: &[String]) -> String {
        let Self { a, b, .. } = self;
        let mut text = String::new();
        write_list(&mut text, &format!("{a} right, {b} wrong"), &self.right_then_wrong);
        write_list(&mut text, &format!("{a} wrong, {b} right"), &self.wrong_then_right);
        let _ = write!(text, "both right: {}\nboth wrong: {}", self.both_right, self.both_wrong);
        if self.not_compared > 0 {
            let _ = write!(text, "\nnot answered by both, or not judged: {}", self.not_compared);
        }
        if let Some(first) = self.right_then_wrong.first().or(self.wrong_then_right.first()) {
            let artifacts: Vec<String> = artifacts.iter().map(|artifact| shell_word(artifact)).collect();
            let command =
                format!("trainyard artifacts compare {} --problem {}", artifacts.join(" "), shell_word(first));
            let _ = write!(text, "\n\nnext: {command}");
        }
        text
    }
}

fn write_list(text: &mut String, title: &str, ids: &[String]) {
    let _ = writeln!(text, "{title}: {}", ids.len());
    for id in ids.iter().take(IDS) {
        let _ = writeln!(text, "  {id}");
    }
    if ids.len() > IDS {
        let _ = writeln!(text, "  … {} more; `--format json` lists all", ids.len() - IDS);
    }
}

/// Quotes a word with characters that a shell interprets.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.:@=,".contains(c);
    if text.chars().all(is_plain) { text.to_string() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    fn model(name: &str, greedy: &[(&str, Option<bool>)]) -> ModelSamples {
        let mut model = ModelSamples::new(name, 0);
        for (problem, correct) in greedy {
            model.add(Sample { problem: problem.to_string(), number: -1, correct: *correct, row: None });
        }
        model
    }

    #[test]
    fn problems_are_counted_by_both_verdicts() {
        let (yes, no) = (Some(true), Some(false));
        let a = model("sft", &[("p1", yes), ("p2", yes), ("p3", no), ("p4", no), ("p5", None), ("p6", yes)]);
        let b = model("rl", &[("p1", no), ("p2", yes), ("p3", yes), ("p4", no), ("p5", yes), ("p7", yes)]);
        let flips = Flips::between(&a, &b, None);
        assert_eq!(flips.right_then_wrong, ["p1"]);
        assert_eq!(flips.wrong_then_right, ["p3"]);
        assert_eq!((flips.both_right, flips.both_wrong, flips.not_compared), (1, 1, 3));
        let expected = "sft right, rl wrong: 1\n  p1\nsft wrong, rl right: 1\n  p3\nboth right: 1\nboth wrong: 1\n\
                        not answered by both, or not judged: 3\n\n\
                        next: trainyard artifacts compare latest/evaluate/results --problem p1";
        assert_eq!(flips.text(&["latest/evaluate/results".to_string()]), expected);
    }

    #[test]
    fn a_number_selects_the_samples() {
        let mut a = model("a", &[("p1", Some(true))]);
        a.add(Sample { problem: "p1".into(), number: 3, correct: Some(false), row: None });
        let b = model("b", &[("p1", Some(true))]);
        assert_eq!(Flips::between(&a, &b, None).both_right, 1);
        assert_eq!(Flips::between(&a, &a, Some(3)).both_wrong, 1);
        assert_eq!(Flips::between(&a, &b, Some(3)).not_compared, 1);
    }

    #[test]
    fn words_of_commands_are_quoted() {
        assert_eq!(shell_word("latest/rl/trajectories"), "latest/rl/trajectories");
        assert_eq!(shell_word("rl[seed=1]"), "'rl[seed=1]'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}

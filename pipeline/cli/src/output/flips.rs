//! Formats the problems that one model got right and another one wrong.

use super::human::table;
use super::shell;
use std::fmt::Write as _;
use trainyard_views::comparison::{FlippedAnswers, Flips};

/// Maximum number of problems of one list.
const PROBLEMS: usize = 50;
/// Maximum characters of an answer.
const CELL: usize = 40;

/// Formats both lists with their counts, and the command that shows the first of these problems.
pub fn text(flips: &Flips, artifacts: &[String]) -> String {
    let (a, b) = (flips.a.as_str(), flips.b.as_str());
    let (lost, won) = flips.answers.split_at(flips.right_then_wrong.len().min(flips.answers.len()));
    let mut text = String::new();
    write_list(&mut text, &format!("{a} right, {b} wrong"), (a, b), lost);
    write_list(&mut text, &format!("{a} wrong, {b} right"), (a, b), won);
    let _ = write!(text, "both right: {}\nboth wrong: {}", flips.both_right, flips.both_wrong);
    if flips.not_compared > 0 {
        let _ = write!(text, "\nnot answered by both, or not judged: {}", flips.not_compared);
    }
    if let Some(first) = flips.answers.first() {
        let artifacts: Vec<String> = artifacts.iter().map(|artifact| shell::word(artifact)).collect();
        let problem = shell::word(&first.problem);
        let _ = write!(text, "\n\nnext: trainyard artifacts compare {} --problem {problem}", artifacts.join(" "));
    }
    text
}

fn write_list(text: &mut String, title: &str, (a, b): (&str, &str), problems: &[FlippedAnswers]) {
    let _ = writeln!(text, "{title}: {}", problems.len());
    if problems.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = problems.iter().take(PROBLEMS).map(cells).collect();
    let _ = writeln!(text, "{}", table(&["problem", "expected", a, b], &rows));
    if problems.len() > PROBLEMS {
        let _ = writeln!(text, "… {} more; `--format json` lists all", problems.len() - PROBLEMS);
    }
    text.push('\n');
}

fn cells(answers: &FlippedAnswers) -> Vec<String> {
    let answer = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_string(), cut);
    vec![answers.problem.clone(), answer(&answers.expected), answer(&answers.a), answer(&answers.b)]
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CELL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(problem: &str, a: Option<&str>, b: Option<&str>) -> FlippedAnswers {
        let expected = Some("20".to_string());
        FlippedAnswers { problem: problem.into(), expected, a: a.map(String::from), b: b.map(String::from) }
    }

    fn flips(right_then_wrong: Vec<FlippedAnswers>, wrong_then_right: Vec<FlippedAnswers>) -> Flips {
        let ids = |list: &[FlippedAnswers]| list.iter().map(|answers| answers.problem.clone()).collect();
        Flips {
            a: "sft".into(),
            b: "rl".into(),
            right_then_wrong: ids(&right_then_wrong),
            wrong_then_right: ids(&wrong_then_right),
            both_right: 1,
            both_wrong: 2,
            not_compared: 3,
            answers: [right_then_wrong, wrong_then_right].concat(),
        }
    }

    #[test]
    fn lists_are_followed_by_counts_and_a_command() {
        let found = flips(vec![answers("p1", Some("20"), Some("3"))], vec![answers("p3", None, Some("20"))]);
        let expected = "sft right, rl wrong: 1\nproblem  expected  sft  rl\np1             20   20   3\n\n\
                        sft wrong, rl right: 1\nproblem  expected  sft  rl\np3             20    -  20\n\n\
                        both right: 1\nboth wrong: 2\nnot answered by both, or not judged: 3\n\n\
                        next: trainyard artifacts compare latest/evaluate/results --problem p1";
        assert_eq!(text(&found, &["latest/evaluate/results".to_string()]), expected);
        let none = Flips { not_compared: 0, ..flips(Vec::new(), Vec::new()) };
        let expected = "sft right, rl wrong: 0\nsft wrong, rl right: 0\nboth right: 1\nboth wrong: 2";
        assert_eq!(text(&none, &[]), expected);
    }

    #[test]
    fn long_lists_and_answers_are_cut() {
        let long = "x".repeat(CELL + 1);
        let many = (0..53).map(|n| answers(&format!("p{n}"), Some(&long), None)).collect();
        let text = text(&flips(Vec::new(), many), &["rl[seed=1]".to_string()]);
        assert!(text.contains(&format!("  {}…   -\n… 3 more; `--format json` lists all\n", &long[1..])), "{text}");
        assert!(text.contains("\np49 ") && !text.contains("\np50 "), "{text}");
        assert!(text.ends_with("next: trainyard artifacts compare 'rl[seed=1]' --problem p0"), "{text}");
    }
}

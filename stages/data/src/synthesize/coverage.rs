//! Measures n-gram coverage, the share of a set of questions that other texts contain. Templated problems share n-grams
//! by construction, so coverage is only reported and does not decide whether splits are disjoint.

use crate::text::ngrams;
use std::collections::HashSet;
use trainyard_tables::Problem;

/// Number of words in an n-gram.
pub const NGRAM: usize = 8;

/// Coverage of questions by texts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Coverage {
    /// Share of the questions' 8-grams (with repeats) that occur in the texts.
    pub grams: f64,
    /// Share of questions of which at least half of the 8-grams occur in the texts.
    pub questions: f64,
}

/// Returns the coverage of the questions of `problems` by the texts `seen`; zeros if no question has an 8-gram.
pub fn coverage<'a, 'b>(problems: impl Iterator<Item = &'a Problem>, seen: impl Iterator<Item = &'b str>) -> Coverage {
    let known: HashSet<u64> = seen.flat_map(|text| ngrams(text, NGRAM)).collect();
    let (mut grams, mut hits, mut questions, mut covered) = (0usize, 0usize, 0usize, 0usize);
    for problem in problems {
        let question_grams = ngrams(problem.question(), NGRAM);
        let shared = question_grams.iter().filter(|g| known.contains(g)).count();
        grams += question_grams.len();
        hits += shared;
        questions += usize::from(!question_grams.is_empty());
        covered += usize::from(!question_grams.is_empty() && 2 * shared >= question_grams.len());
    }
    let share = |a: usize, b: usize| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    Coverage { grams: share(hits, grams), questions: share(covered, questions) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    #[test]
    fn coverage_matches_hand_computation() {
        let problem = |text: &str| Problem { messages: vec![Message::new("user", text)], ..Problem::default() };
        // Nine words: two 8-grams, the first known. Eight other words: one 8-gram, unknown. Two words: none.
        let problems = [problem("a b c d e f g h i"), problem("q r s t u v w x"), problem("a b")];
        let seen = ["0 a b c d e f g h 9"];
        let c = coverage(problems.iter(), seen.into_iter());
        assert!((c.grams - 1.0 / 3.0).abs() < 1e-12 && (c.questions - 0.5).abs() < 1e-12, "{c:?}");
        assert_eq!(coverage([].iter(), seen.into_iter()), Coverage::default());
    }
}

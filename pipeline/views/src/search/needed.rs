//! Derives the trigrams that every text with a match contains, and combines their posting lists.

use super::trigrams::{fold, trigrams};
use regex_syntax::hir::{Class, Hir, HirKind};
use trainyard_core::Result;

/// Maximum trigrams of one literal; more would hardly narrow the blocks further.
const MAX_TRIGRAMS: usize = 24;

/// Condition on the trigrams of a block, necessary for a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NeededTrigrams {
    /// Any block may have a match.
    Any,
    One(u32),
    And(Vec<Self>),
    Or(Vec<Self>),
}

impl NeededTrigrams {
    /// Returns the condition of a text, in any case.
    pub fn of_text(text: &str) -> Self {
        let mut needed: Vec<u32> = trigrams(&fold(text)).collect();
        needed.sort_unstable();
        needed.dedup();
        let step = needed.len().div_ceil(MAX_TRIGRAMS).max(1);
        Self::all(needed.into_iter().step_by(step).map(Self::One).collect())
    }
    /// Returns the condition of a regular expression.
    pub fn of_regex(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Literal(_) | HirKind::Class(_) => Self::of_sequence(std::slice::from_ref(hir)),
            HirKind::Concat(parts) => Self::of_sequence(parts),
            HirKind::Alternation(parts) => Self::any_of(parts.iter().map(Self::of_regex).collect()),
            HirKind::Capture(capture) => Self::of_regex(&capture.sub),
            HirKind::Repetition(repeated) if repeated.min > 0 => Self::of_regex(&repeated.sub),
            HirKind::Repetition(_) | HirKind::Empty | HirKind::Look(_) => Self::Any,
        }
    }
    /// Returns the blocks that meet the condition, sorted; `None` for all. `postings` returns the blocks with a
    /// trigram.
    pub fn blocks(&self, postings: &mut impl FnMut(u32) -> Result<Vec<u32>>) -> Result<Option<Vec<u32>>> {
        Ok(match self {
            Self::Any => None,
            Self::One(trigram) => Some(postings(*trigram)?),
            Self::And(parts) => {
                let mut found: Option<Vec<u32>> = None;
                for part in parts {
                    let next = part.blocks(postings)?;
                    found = match (found, next) {
                        (Some(a), Some(b)) => Some(intersection(&a, &b)),
                        (a, b) => a.or(b),
                    };
                    if found.as_ref().is_some_and(Vec::is_empty) {
                        break;
                    }
                }
                found
            }
            Self::Or(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    match part.blocks(postings)? {
                        Some(blocks) => found.extend(blocks),
                        None => return Ok(None),
                    }
                }
                found.sort_unstable();
                found.dedup();
                Some(found)
            }
        })
    }

    /// Returns the condition of adjacent parts. Literals, and classes of one letter in several cases, are joined.
    fn of_sequence(parts: &[Hir]) -> Self {
        let (mut conditions, mut literal) = (Vec::new(), String::new());
        for part in parts {
            match (folded_literal(part), part.kind()) {
                (Some(text), _) => literal.push_str(&text),
                (None, HirKind::Look(_)) => {}
                (None, _) => {
                    conditions.push(Self::of_text(&std::mem::take(&mut literal)));
                    if !matches!(part.kind(), HirKind::Class(_) | HirKind::Literal(_)) {
                        conditions.push(Self::of_regex(part));
                    }
                }
            }
        }
        conditions.push(Self::of_text(&literal));
        Self::all(conditions)
    }
    fn all(mut parts: Vec<Self>) -> Self {
        parts.retain(|part| *part != Self::Any);
        match parts.len() {
            0 => Self::Any,
            1 => parts.remove(0),
            _ => Self::And(parts),
        }
    }
    fn any_of(parts: Vec<Self>) -> Self {
        if parts.contains(&Self::Any) { Self::Any } else { Self::Or(parts) }
    }
}

/// Returns the lower case that all matches of a literal or a class of characters share.
fn folded_literal(part: &Hir) -> Option<String> {
    match part.kind() {
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).ok().map(|text| fold(text).into_owned()),
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.ranges();
            // Cases of one letter are few.
            if ranges.iter().map(|range| u32::from(range.end()) - u32::from(range.start()) + 1).sum::<u32>() > 4 {
                return None;
            }
            let mut cases = ranges
                .iter()
                .flat_map(|range| range.start()..=range.end())
                .map(|c| c.to_lowercase().collect::<String>());
            let first = cases.next()?;
            cases.all(|case| case == first).then_some(first)
        }
        _ => None,
    }
}

fn intersection(a: &[u32], b: &[u32]) -> Vec<u32> {
    a.iter().copied().filter(|block| b.binary_search(block).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> NeededTrigrams {
        NeededTrigrams::of_regex(&regex_syntax::parse(pattern).unwrap())
    }

    fn text(text: &str) -> NeededTrigrams {
        NeededTrigrams::of_text(text)
    }

    #[test]
    fn literals_of_an_expression_are_needed() {
        let both = |a: &str, b: &str| NeededTrigrams::And(vec![text(a), text(b)]);
        assert_eq!(text("ab"), NeededTrigrams::Any);
        assert_eq!(of("abc"), NeededTrigrams::One(0x61_6263));
        assert_eq!(of("abc[0-9]+xyz"), both("abc", "xyz"));
        assert_eq!(of("abc(xyz)?"), text("abc"));
        assert_eq!(of(r"\babc$"), text("abc"));
        assert_eq!(of("(abc){2}"), text("abc"));
        assert_eq!(of("abc|xyz"), NeededTrigrams::Or(vec![text("abc"), text("xyz")]));
        assert_eq!(of("abc|[0-9]"), NeededTrigrams::Any);
        assert_eq!(of("(?i)ABC"), text("abc"));
        // A long s is another letter in lower case, but a match of `s` in any case.
        assert_eq!(of("(?i)abcsxyz"), both("abc", "xyz"));
        assert_eq!(of(".*"), NeededTrigrams::Any);
    }

    #[test]
    fn posting_lists_are_combined() {
        let mut postings = |trigram: u32| -> Result<Vec<u32>> {
            Ok(match trigram {
                1 => vec![1, 2, 3],
                2 => vec![2, 3, 9],
                _ => Vec::new(),
            })
        };
        use NeededTrigrams::{And, Any, One, Or};
        let mut blocks = |needed: NeededTrigrams| needed.blocks(&mut postings).unwrap();
        assert_eq!(blocks(And(vec![One(1), One(2)])), Some(vec![2, 3]));
        assert_eq!(blocks(Or(vec![One(2), One(1)])), Some(vec![1, 2, 3, 9]));
        assert_eq!(blocks(And(vec![One(1), One(7)])), Some(Vec::new()));
        assert_eq!(blocks(And(vec![Any, One(1)])), Some(vec![1, 2, 3]));
        assert_eq!(blocks(Or(vec![Any, One(1)])), None);
        assert_eq!(blocks(Any), None);
    }
}

use super::*;
use crate::tools::calculator::evaluate;
use crate::verifiers::{countdown, verify};
use std::collections::BTreeSet;

fn some(level: u32, count: u64) -> impl Iterator<Item = Puzzle> {
    (0..count).map(move |index| Puzzle::at(&PuzzleRules::default(), level, index, &Chance::new(11)))
}

fn term(value: i64, text: &str, rank: u8) -> PuzzleTerm {
    PuzzleTerm { value, text: text.to_string(), rank }
}

#[test]
fn solutions_use_all_numbers_within_bounds() {
    let bounds = [(99, 999), (20, 99), (25, 199), (50, 499), (100, 999)];
    for (level, (largest, max_target)) in (1..=MAX_LEVEL).zip(bounds) {
        for puzzle in some(level, 500) {
            let (value, used) = countdown::read(&puzzle.expression).unwrap();
            assert_eq!(value.to_string(), puzzle.target.to_string(), "{puzzle:?}");
            let mut used: Vec<i64> = used.into_iter().map(|n| n as i64).collect();
            used.sort_unstable();
            assert_eq!((&used, used.len()), (&puzzle.numbers, level as usize + 1));
            assert!(
                used.iter().all(|n| (1..=largest).contains(n)) && (1..=max_target).contains(&puzzle.target),
                "{puzzle:?}"
            );
            assert!(verify(&puzzle.problem(level), &puzzle.expression));
            assert!(!verify(&puzzle.problem(level), &puzzle.target.to_string()));
        }
    }
}

#[test]
fn every_level_has_enough_puzzles() {
    for level in 1..=MAX_LEVEL {
        let forms: BTreeSet<String> = some(level, 3000).map(|p| p.canonical()).collect();
        assert!(forms.len() > 2300, "level {level}: {}", forms.len());
    }
}

#[test]
fn parentheses_are_written_only_where_needed() {
    let (sum, product, number) = (|| term(5, "2+3", 0), || term(6, "2*3", 1), || term(7, "7", 2));
    assert_eq!(number().within(2), "7");
    assert_eq!(product().within(1), "2*3");
    assert_eq!(product().within(2), "(2*3)");
    assert_eq!(sum().within(1), "(2+3)");
    let mut texts = BTreeSet::new();
    for i in 0..200 {
        texts.insert(join(&product(), &sum(), "+-*/", &mut Chance::new(1).at("join", &[i])).text);
        texts.insert(join(&term(12, "6+6", 0), &product(), "+-*/", &mut Chance::new(2).at("join", &[i])).text);
    }
    let expected = ["(6+6)*2*3", "(6+6)/(2*3)", "2*3*(2+3)", "2*3+2+3", "2*3-(2+3)", "6+6+2*3", "6+6-2*3"];
    assert_eq!(texts.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn easy_targets_are_drawn_again() {
    assert!(easy(&[3, 5, 7], 5));
    assert!(easy(&[3, 5, 7], 35) && easy(&[3, 5, 7], 4) && easy(&[3, 6, 7], 2));
    assert!(!easy(&[3, 5], 15) && !easy(&[3, 5, 7], 22));
}

#[test]
fn mistakes_of_both_kinds_occur() {
    let (mut wrong, mut unreadable) = (0, 0);
    for (i, puzzle) in some(3, 200).enumerate() {
        match evaluate(&puzzle.mistake(&PuzzleRules::default(), &mut Chance::new(i as u64).at("mistake", &[]))) {
            Ok(value) => {
                assert_ne!(value.to_string(), puzzle.target.to_string());
                wrong += 1;
            }
            Err(_) => unreadable += 1,
        }
    }
    assert!(wrong > 50 && unreadable > 50, "{wrong} {unreadable}");
}

/// Compares a fixed sample, so that a change of the wording is noticed.
#[test]
fn puzzle_wording() {
    let puzzle = Puzzle { numbers: vec![3, 5, 7, 8], target: 48, expression: "(3+5)*7-8".to_string() };
    let problem = puzzle.problem(3);
    assert_eq!(problem.question(), "Make 48 from 3 5 7 8, each at most once, with + - * / and ( ).");
    assert_eq!(problem.canonical, "3,5,7,8=48");
    assert!(problem.id.starts_with("cd3-"), "{}", problem.id);
    let at = |level: u32| Puzzle::at(&PuzzleRules::default(), level, 4, &Chance::new(1));
    assert_eq!((at(0), at(9)), (at(1), at(MAX_LEVEL)));
}

#[test]
fn rules_restrict_numbers_and_operations() {
    let rules = PuzzleRules { largest: Some(12), operations: "+-".into() };
    for index in 0..200 {
        let puzzle = Puzzle::at(&rules, 2, index, &Chance::new(3));
        assert!(puzzle.numbers.iter().all(|n| (1..=12).contains(n)), "{puzzle:?}");
        assert!(!puzzle.expression.contains(['*', '/']), "{puzzle:?}");
        assert!(!puzzle.mistake(&rules, &mut Chance::new(index).at("m", &[])).is_empty());
    }
}

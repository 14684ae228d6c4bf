use super::*;
use crate::tools::calculator::evaluate;
use std::collections::{BTreeMap, BTreeSet};

fn some(level: u32, count: u64) -> impl Iterator<Item = GeneratedProblem> {
    (0..count).map(move |index| generate(level, index, &Chance::new(11)))
}

/// Returns the amounts after the start and each step.
fn amounts(story: &Story) -> Vec<i64> {
    let mut amounts = vec![story.start];
    for step in &story.steps {
        amounts.push(step.operation.apply(amounts[amounts.len() - 1], step.number));
    }
    amounts
}

/// Runs the reference program line by line in the calculator.
fn run_lines(lines: &[String]) -> String {
    let mut x = String::new();
    for line in lines {
        if line == "x" {
            break;
        }
        let (target, number) = line.split_once('=').unwrap();
        let sign = target.strip_prefix('x').unwrap();
        x = evaluate(&if sign.is_empty() { number.to_string() } else { format!("{x}{sign}{number}") })
            .unwrap()
            .to_string();
    }
    x
}

#[test]
fn references_give_their_answers_both_ways() {
    for level in 1..=MAX_LEVEL {
        for generated in some(level, 2000) {
            let answer = &generated.problem.answer;
            assert_eq!(
                evaluate(&generated.one_expression).unwrap().to_string(),
                *answer,
                "{}",
                generated.one_expression
            );
            assert_eq!(run_lines(&generated.solution_lines), *answer, "{:?}", generated.solution_lines);
            assert_eq!(generated.solution_lines.len(), level as usize + 2);
        }
    }
}

#[test]
fn numbers_amounts_and_lengths_stay_in_bounds() {
    let amount_limits = [999, 9_999, 99_999, 999_999, 9_999_999];
    let given_limits = [99, 99, 999, 999, 9_999];
    for level in 1..=MAX_LEVEL {
        let at = level as usize - 1;
        let (mut longest, mut distractors) = (0, BTreeSet::new());
        for generated in some(level, 2000) {
            let story = &generated.story;
            assert!(amounts(story).iter().all(|a| (1..=amount_limits[at]).contains(a)), "{story:?}");
            assert!(story.steps.iter().all(|s| s.number <= given_limits[at]) && story.start <= given_limits[at]);
            let divisions =
                story.steps.iter().zip(amounts(story)).filter(|(s, _)| s.operation == StoryOperation::Divide);
            assert!(divisions.into_iter().all(|(s, before)| before % s.number == 0));
            distractors.insert(story.distractors.len());
            longest = longest.max(generated.problem.question().len());
        }
        assert!(longest <= 200, "level {level}: {longest}");
        let expected: &[usize] = match level {
            1 | 2 => &[0],
            3 | 4 => &[1],
            _ => &[1, 2],
        };
        assert!(distractors.iter().eq(expected), "level {level}: {distractors:?}");
    }
}

#[test]
fn canonical_forms_identify_problems_and_levels_are_disjoint() {
    let mut seen: BTreeMap<String, (u32, String, String)> = BTreeMap::new();
    let mut repeated = BTreeMap::from([(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]);
    for level in 1..=MAX_LEVEL {
        for generated in some(level, 3000) {
            let p = generated.problem;
            let entry = (level, generated.one_expression, p.id.clone());
            match seen.insert(p.canonical.clone(), entry.clone()) {
                None => {}
                Some(before) => {
                    *repeated.get_mut(&level).unwrap() += 1;
                    assert_eq!(before, entry, "{}", p.canonical);
                }
            }
        }
    }
    let ids: BTreeSet<&String> = seen.values().map(|(_, _, id)| id).collect();
    assert_eq!(ids.len(), seen.len(), "ids and canonical forms correspond");
    // There are about 15,000 programs of level 1, and 170 of them divide.
    assert!(repeated[&1] < 1_200 && repeated[&2] < 150, "{repeated:?} of 3000 each were drawn twice");
    assert!(repeated[&3] + repeated[&4] + repeated[&5] < 30, "{repeated:?} of 3000 each were drawn twice");
}

#[test]
fn problems_repeat_and_names_do_not_matter() {
    let chance = Chance::new(3);
    assert_eq!(generate(4, 9, &chance), generate(4, 9, &chance));
    assert_ne!(generate(4, 9, &chance), generate(4, 10, &chance));
    assert_ne!(generate(4, 9, &chance), generate(4, 9, &Chance::new(4)));
    assert_eq!(generate(0, 9, &chance), generate(1, 9, &chance));
    assert_eq!(generate(99, 9, &chance), generate(MAX_LEVEL, 9, &chance));
    let canonical = generate(5, 1, &chance).problem.canonical;
    assert!(!canonical.contains(char::is_uppercase), "{canonical}");
}

#[test]
fn every_sentence_form_and_operation_occurs() {
    let mut forms = BTreeSet::new();
    let mut counts = BTreeMap::new();
    for generated in some(5, 2000) {
        for step in &generated.story.steps {
            forms.insert((step.operation, step.form));
            *counts.entry(step.operation).or_insert(0) += 1;
        }
    }
    assert_eq!(forms.len(), 12);
    assert!(counts.values().all(|c| *c > 1000), "{counts:?}");
}

/// Compares a fixed sample, so that a change of the wording is noticed.
#[test]
fn story_wording() {
    let story = Story {
        start: 12,
        start_form: 0,
        steps: [(StoryOperation::Add, 7, 0), (StoryOperation::Multiply, 3, 1), (StoryOperation::Divide, 19, 1)]
            .map(|(operation, number, form)| story::StoryStep { operation, number, form })
            .to_vec(),
        distractors: vec![story::Distractor { before: 0, number: 41, form: 2 }],
        question_form: 1,
    };
    assert_eq!(story.canonical(), "12;+7;*3;//19");
    let reworded = Story { start_form: 2, distractors: Vec::new(), question_form: 0, ..story.clone() };
    assert_eq!(reworded.canonical(), story.canonical(), "a reworded story is the same problem");
    assert_eq!(program_lines(&story), ["x=12", "x+=7", "x*=3", "x//=19", "x"]);
    assert_eq!(expression(&story), "(12+7)*3//19");
    assert_eq!(story.amount(), 3);
    let text = phrases::question(&story, &StoryWords::draw(&mut Chance::new(1).at("w", &[]))).replace("She", "He");
    assert!(
        text.ends_with(". It is 41 km off. He buys 7. It grows 3 fold. He splits it 19 ways. How many now?"),
        "{text}"
    );
}

#[test]
fn mistakes_change_one_line_and_all_kinds_occur() {
    let mut kinds = BTreeMap::new();
    for (i, generated) in some(3, 1000).enumerate() {
        let attempts = generated.attempts(1.0, &Chance::new(i as u64));
        let [first, last] = attempts.as_slice() else { panic!("{attempts:?}") };
        assert_eq!((&last.lines, last.mistake), (&generated.solution_lines, None));
        let different = first.lines.iter().zip(&last.lines).filter(|(a, b)| a != b).count();
        assert_eq!((first.lines.len(), different), (last.lines.len(), 1), "{first:?}");
        *kinds.entry(first.mistake).or_insert(0) += 1;
        assert_eq!(generated.demonstration(0.0, &Chance::new(i as u64)), [generated.program()]);
    }
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), [Some(Mistake::UnknownName), Some(Mistake::Syntax)]);
    assert!(kinds.values().all(|c| *c > 400), "{kinds:?}");
}

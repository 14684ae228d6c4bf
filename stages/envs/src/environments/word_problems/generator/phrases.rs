//! Writes the text of a story, short enough that five steps with two distractors stay within 200 characters.

use super::story::{Story, StoryOperation};
use trainyard_core::chance::PhiloxRng;

/// Templates of the first sentence.
pub const STARTS: u64 = 3;
/// Templates per operation.
pub const FORMS: u64 = 3;
/// Templates of irrelevant sentences.
pub const DISTRACTORS: u64 = 4;
/// Templates of the question.
pub const QUESTIONS: u64 = 3;

const NAMES: [(&str, &str); 12] = [
    ("Ann", "She"),
    ("Bob", "He"),
    ("Eva", "She"),
    ("Finn", "He"),
    ("Ida", "She"),
    ("Jon", "He"),
    ("Lea", "She"),
    ("Max", "He"),
    ("Nora", "She"),
    ("Omar", "He"),
    ("Rosa", "She"),
    ("Tom", "He"),
];
/// Counted items.
pub const ITEMS: [&str; 12] =
    ["figs", "pens", "nuts", "cards", "eggs", "coins", "books", "shells", "plums", "bolts", "stamps", "seeds"];

/// The names and items of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoryWords {
    name: &'static str,
    pronoun: &'static str,
    item: &'static str,
    /// Another person, for irrelevant sentences.
    other: &'static str,
    other_item: &'static str,
}

impl StoryWords {
    pub fn draw(draws: &mut PhiloxRng) -> Self {
        let mut two = |count: usize| {
            let first = draws.below(count as u64) as usize;
            let second = (first + 1 + draws.below(count as u64 - 1) as usize) % count;
            (first, second)
        };
        let (who, other) = two(NAMES.len());
        let (item, other_item) = two(ITEMS.len());
        Self {
            name: NAMES[who].0,
            pronoun: NAMES[who].1,
            item: ITEMS[item],
            other: NAMES[other].0,
            other_item: ITEMS[other_item],
        }
    }
}

/// Returns the text of a problem.
pub fn question(story: &Story, words: &StoryWords) -> String {
    let mut sentences = vec![start(story, words)];
    for index in 0..=story.steps.len() {
        sentences.extend(
            story.distractors.iter().filter(|d| d.before == index).map(|d| distractor(d.form, d.number, words)),
        );
        sentences.extend(story.steps.get(index).map(|s| operation(s.operation, s.form, s.number, words)));
    }
    sentences.push(question_sentence(story.question_form, words));
    sentences.join(" ")
}

fn start(story: &Story, words: &StoryWords) -> String {
    let StoryWords { name, item, .. } = words;
    let n = story.start;
    match story.start_form {
        0 => format!("{name} has {n} {item}."),
        1 => format!("{name} owns {n} {item}."),
        _ => format!("{name} got {n} {item}."),
    }
}

fn operation(operation: StoryOperation, form: usize, n: i64, words: &StoryWords) -> String {
    let StoryWords { pronoun, .. } = words;
    match (operation, form) {
        (StoryOperation::Add, 0) => format!("{pronoun} buys {n}."),
        (StoryOperation::Add, 1) => format!("{pronoun} finds {n} more."),
        (StoryOperation::Add, _) => format!("{pronoun} gets {n}."),
        (StoryOperation::Subtract, 0) => format!("{pronoun} gives away {n}."),
        (StoryOperation::Subtract, 1) => format!("{pronoun} loses {n}."),
        (StoryOperation::Subtract, _) => format!("{pronoun} sells {n}."),
        (StoryOperation::Multiply, 0) => format!("Now it is times {n}."),
        (StoryOperation::Multiply, 1) => format!("It grows {n} fold."),
        (StoryOperation::Multiply, _) => format!("{pronoun} has {n} times that."),
        (StoryOperation::Divide, 0) => format!("{pronoun} keeps one in {n}."),
        (StoryOperation::Divide, 1) => format!("{pronoun} splits it {n} ways."),
        (StoryOperation::Divide, _) => format!("{n} share it evenly."),
    }
}

fn distractor(form: usize, n: i64, words: &StoryWords) -> String {
    let StoryWords { other, other_item, .. } = words;
    match form {
        0 => format!("{other} is {n}."),
        1 => format!("{other} has {n} {other_item}."),
        2 => format!("It is {n} km off."),
        _ => format!("A bus has {n} seats."),
    }
}

fn question_sentence(form: usize, words: &StoryWords) -> String {
    let StoryWords { item, .. } = words;
    match form {
        0 => format!("How many {item}?"),
        1 => "How many now?".to_string(),
        _ => "How many are left?".to_string(),
    }
}

//! Defines a story: the numbers and forms from which sentences, programs and answers are derived.

/// Effect of a sentence on the amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoryOperation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl StoryOperation {
    pub const ALL: [Self; 4] = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide];
    /// Returns the operator as expressions and augmented assignments write it.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "//",
        }
    }
    pub fn apply(self, amount: i64, number: i64) -> i64 {
        match self {
            Self::Add => amount + number,
            Self::Subtract => amount - number,
            Self::Multiply => amount * number,
            Self::Divide => amount / number,
        }
    }
}

/// One operation with its number and the form of its sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoryStep {
    pub operation: StoryOperation,
    pub number: i64,
    pub form: usize,
}

/// Irrelevant sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distractor {
    /// Index of the following step (`steps.len()` = before the question).
    pub before: usize,
    pub number: i64,
    pub form: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    pub start: i64,
    pub start_form: usize,
    pub steps: Vec<StoryStep>,
    pub distractors: Vec<Distractor>,
    pub question_form: usize,
}

impl Story {
    /// Returns the amount at the end, which is the answer.
    pub fn amount(&self) -> i64 {
        self.steps.iter().fold(self.start, |amount, step| step.operation.apply(amount, step.number))
    }
    /// Returns the canonical form: the program, its operations with their numbers in order: `12;+7;*3`.
    pub fn canonical(&self) -> String {
        let steps = self.steps.iter().map(|s| format!("{}{}", s.operation.sign(), s.number));
        std::iter::once(self.start.to_string()).chain(steps).collect::<Vec<_>>().join(";")
    }
}

/// Returns the reference program, line by line.
pub fn program_lines(story: &Story) -> Vec<String> {
    let steps = story.steps.iter().map(|step| format!("x{}={}", step.operation.sign(), step.number));
    std::iter::once(format!("x={}", story.start)).chain(steps).chain(["x".to_string()]).collect()
}

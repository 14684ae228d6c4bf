//! Defines a pair of answers as tokens, and leaves the turns that both share out of the loss.

use trainyard_lm::examples::Example;

/// Two answers to one prompt, as tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerPair {
    /// Contexts of the chosen answer and of the rejected one; usually one each.
    pub sides: [Vec<Example>; 2],
}

impl AnswerPair {
    /// Returns the number of tokens, prompts included.
    pub fn tokens(&self) -> usize {
        self.contexts().map(|context| context.tokens.len()).sum()
    }
    /// Returns all contexts, those of the chosen answer first.
    pub fn contexts(&self) -> impl Iterator<Item = &Example> {
        self.sides.iter().flatten()
    }
    /// Returns the tokens of the longest context.
    pub fn longest(&self) -> usize {
        self.contexts().map(|context| context.tokens.len()).max().unwrap_or(0)
    }
}

/// Counts the tokens in the loss of one answer.
pub fn loss_tokens(side: &[Example]) -> usize {
    side.iter().map(Example::loss_tokens).sum()
}

/// Removes the agent's turns with which both answers begin from the loss, because these turns are context and the two
/// sides would move them in opposite directions. Returns the number of removed turns.
///
/// Contexts that are equal on both sides contain only such turns and are dropped.
pub fn mask_shared(pair: &mut AnswerPair) -> usize {
    let [chosen, rejected] = &mut pair.sides;
    let equal = chosen.iter().zip(rejected.iter()).take_while(|(a, b)| a == b).count();
    let mut shared: usize = chosen[..equal].iter().map(|context| turn_ends(context).len()).sum();
    chosen.drain(..equal);
    rejected.drain(..equal);
    if let (Some(a), Some(b)) = (chosen.first_mut(), rejected.first_mut()) {
        let common = a.tokens.iter().zip(&b.tokens).take_while(|(x, y)| x == y).count();
        let (ends_a, ends_b) = (turn_ends(a), turn_ends(b));
        let ends: Vec<usize> = ends_a.into_iter().filter(|end| *end <= common && ends_b.contains(end)).collect();
        if let Some(last) = ends.last() {
            for side in [a, b] {
                side.mask[..*last].fill(false);
            }
            shared += ends.len();
        }
    }
    shared
}

/// Returns the exclusive ends of the runs of tokens in the loss.
fn turn_ends(context: &Example) -> Vec<usize> {
    let mask = &context.mask;
    (0..mask.len()).filter(|&t| mask[t] && !mask.get(t + 1).copied().unwrap_or(false)).map(|t| t + 1).collect()
}

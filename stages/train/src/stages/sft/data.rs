//! Collects the token sequences of rows, with the limit on their length.

use super::text_ranks::Ranks;
use std::collections::BTreeSet;
use std::path::Path;
use trainyard_core::{Chance, Error, Result};
use trainyard_lm::examples::{ExampleFile, TokenizedTrajectory};

/// Examples of some rows, and counts of omitted rows and turns.
#[derive(Debug)]
pub struct SftExamples {
    /// Examples with at least one token in the loss, in the order of the rows.
    pub examples: ExampleFile,
    /// Number of rows that gave the examples.
    pub rows: usize,
    /// Number of rows left out because they exceed the token limit.
    pub too_long: usize,
    /// Number of rows without a token in the loss.
    pub empty: usize,
    /// Tokens of the longest row.
    pub longest: usize,
    /// Number of turns left out of the loss because their tool call failed.
    pub masked_turns: usize,
}

impl SftExamples {
    /// Creates a collection without rows, whose examples are in a temporary file. Errors: those of
    /// [`ExampleFile::create`].
    pub fn create(path: &Path) -> Result<Self> {
        let examples = ExampleFile::create(path)?;
        Ok(Self { examples, rows: 0, too_long: 0, empty: 0, longest: 0, masked_turns: 0 })
    }
    /// Adds a row, or counts why it is left out. `max_tokens` = token limit of a sequence. Errors: those of
    /// [`ExampleFile::push`].
    pub fn push(&mut self, row: &TokenizedTrajectory, max_tokens: usize) -> Result<()> {
        self.masked_turns += row.masked_turns;
        let longest = row.longest();
        self.longest = self.longest.max(longest);
        let learned = || row.contexts.iter().filter(|context| context.loss_tokens() > 0);
        if longest > max_tokens {
            self.too_long += 1;
        } else if learned().next().is_none() {
            self.empty += 1;
        } else {
            self.rows += 1;
            learned().try_for_each(|example| self.examples.push(example))?;
        }
        Ok(())
    }
    /// Checks that there is something to train on. Errors: data, with the number of rows left out and the limit.
    pub fn expect_any(&self, limit: TokenLimit) -> Result<()> {
        if !self.examples.is_empty() {
            return Ok(());
        }
        let rows = self.too_long + self.empty;
        let long = limit.report(self.too_long, self.longest);
        let message = format!(
            "no trajectories to train on: of {rows} rows, {long} and {} have no tokens in the loss",
            self.empty
        );
        let without_loss = "check that the trajectories have assistant messages".to_string();
        Err(Error::data(message).help(if self.too_long > 0 { limit.help() } else { without_loss }))
    }
    /// Returns a warning about rows that are too long; `None` if there is no such row.
    pub fn length_warning(&self, limit: TokenLimit) -> Option<String> {
        let rows = self.rows + self.too_long + self.empty;
        let text = || {
            format!("of {rows} rows, {} and are left out; {}", limit.report(self.too_long, self.longest), limit.help())
        };
        (self.too_long > 0).then(text)
    }
}

/// Limits of a sequence in tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenLimit {
    /// Option `max_tokens`; 0 = the model's context.
    pub option: usize,
    /// Context of the model.
    pub context: usize,
}

impl TokenLimit {
    /// Returns the maximum number of tokens.
    pub fn tokens(self) -> usize {
        if self.option == 0 { self.context } else { self.option.min(self.context) }
    }
    /// Describes the rows that are too long: their number, and the tokens of the longest.
    pub fn report(self, too_long: usize, longest: usize) -> String {
        let longest = if too_long > 0 { format!(" (the longest {longest})") } else { String::new() };
        format!("{too_long} have more than {} tokens{longest}", self.tokens())
    }
    /// Returns what to do about rows that are too long.
    pub fn help(self) -> String {
        match self.tokens() < self.context {
            true => format!("raise `max_tokens`; the context of the model holds {} tokens", self.context),
            false => "the limit is the model's context: use a model with a longer one (`max_position_embeddings` of \
                      `model/init`), or shorter rows"
                .to_string(),
        }
    }
}

/// Splits rows by problem and returns (training, held out). About `share` of the problems are held out, and at least
/// one if there are two problems and `share` is above 0.
pub fn hold_out<R>(rows: Vec<R>, problem: fn(&R) -> &String, share: f64, chance: &Chance) -> (Vec<R>, Vec<R>) {
    let problems = rows.iter().map(|row| problem(row).clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let held: BTreeSet<String> = held_problems(problems, share, chance).into_iter().collect();
    rows.into_iter().partition(|row| !held.contains(problem(row)))
}

/// Returns for each row whether [`hold_out`] holds it out, given the rank of its problem.
pub fn held_out_rows(ranks: Ranks, share: f64, chance: &Chance) -> Vec<bool> {
    let mut is_held = vec![false; ranks.distinct as usize];
    for rank in held_problems((0..ranks.distinct).collect(), share, chance) {
        is_held[rank as usize] = true;
    }
    ranks.by_row.into_iter().map(|rank| is_held[rank as usize]).collect()
}

/// Returns the problems that are held out, given all in order.
fn held_problems<P>(mut problems: Vec<P>, share: f64, chance: &Chance) -> Vec<P> {
    if share <= 0.0 || problems.len() < 2 {
        return Vec::new();
    }
    chance.at("hold out", &[]).shuffle(&mut problems);
    let count = ((problems.len() as f64 * share).round() as usize).clamp(1, problems.len() - 1);
    problems.truncate(count);
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::sft::text_ranks::TextRanker;
    use trainyard_lm::examples::Example;

    #[test]
    fn rows_that_are_left_out_are_counted_with_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |tokens: &[usize], limit: TokenLimit| {
            let mut examples = SftExamples::create(&folder.path().join("examples")).unwrap();
            for &tokens in tokens {
                let contexts = vec![Example { tokens: vec![0; tokens], mask: vec![false; tokens] }];
                examples.push(&TokenizedTrajectory { contexts, ..TokenizedTrajectory::default() }, 64).unwrap();
            }
            examples.expect_any(limit).unwrap_err()
        };
        let limit = TokenLimit { option: 0, context: 64 };
        let error = refused(&[70, 80, 3], limit);
        let counts = "of 3 rows, 2 have more than 64 tokens (the longest 80) and 1 have no tokens in the loss";
        assert!(error.message.contains(counts), "{error}");
        assert!(error.help.unwrap().contains("`max_position_embeddings`"));
        let limit = TokenLimit { option: 64, context: 512 };
        let error = refused(&[70], limit);
        assert_eq!(error.help.as_deref(), Some("raise `max_tokens`; the context of the model holds 512 tokens"));
        let error = refused(&[3], limit);
        assert!(error.help.unwrap().contains("assistant messages"));
    }

    #[test]
    fn problems_are_held_out_whole() {
        let row = |i: usize| TokenizedTrajectory { problem_id: (i / 3).to_string(), ..TokenizedTrajectory::default() };
        let (train, held) = hold_out((0..30).map(row).collect(), |row| &row.problem_id, 0.2, &Chance::new(1));
        assert_eq!((train.len(), held.len()), (24, 6));
        let ids: BTreeSet<&str> = held.iter().map(|r| r.problem_id.as_str()).collect();
        assert!(train.iter().all(|r| !ids.contains(r.problem_id.as_str())));
        assert_eq!(hold_out(vec![row(0)], |row| &row.problem_id, 0.5, &Chance::new(1)).1.len(), 0);
    }

    #[test]
    fn rows_are_held_out_by_rank_as_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let chance = Chance::new(9);
        for (case, share) in [0.0, 0.01, 0.1, 0.3, 0.5, 0.5].into_iter().enumerate() {
            let mut draws = chance.at("case", &[case as u64]);
            let rows: Vec<String> =
                (0..draws.below(400)).map(|_| format!("p{}", draws.below(1 + case as u64 * 40))).collect();
            let mut ranker = TextRanker::create(&folder.path().join("ids")).unwrap();
            rows.iter().for_each(|row| ranker.push(row).unwrap());
            let is_held = held_out_rows(ranker.finish().unwrap(), share, &chance);
            let (train, held) = hold_out(rows.clone(), |row| row, share, &chance);
            let of = |wanted: bool| {
                let rows = rows.iter().zip(&is_held).filter(|(_, held)| **held == wanted);
                rows.map(|(row, _)| row.clone()).collect::<Vec<_>>()
            };
            assert_eq!((of(false), of(true)), (train, held), "case {case}");
        }
    }
}

//! Reads the token sequences for training and the held-out ones.

use std::collections::BTreeSet;
use trainyard_api::InputArtifact;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::examples::{Example, TokenizedTrajectory, expect_same_text, tokenize, unpack};
use trainyard_tables::{TableRowReader, TokenPack, Trajectory};

/// Examples of some rows, and counts of omitted rows and turns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SftExamples {
    /// Examples with at least one token in the loss, in the order of the rows.
    pub examples: Vec<Example>,
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

/// Converts rows to examples, in order. `max_tokens` = token limit of a sequence.
pub fn prepare(rows: Vec<TokenizedTrajectory>, max_tokens: usize) -> SftExamples {
    let mut prepared = SftExamples::default();
    for row in rows {
        prepared.masked_turns += row.masked_turns;
        let longest = row.longest();
        prepared.longest = prepared.longest.max(longest);
        let examples: Vec<Example> = row.contexts.into_iter().filter(|e| e.loss_tokens() > 0).collect();
        if longest > max_tokens {
            prepared.too_long += 1;
        } else if examples.is_empty() {
            prepared.empty += 1;
        } else {
            prepared.rows += 1;
            prepared.examples.extend(examples);
        }
    }
    prepared
}

/// Encodes the trajectories of some artifacts, on all threads. Errors: data, naming a trajectory that cannot be
/// encoded.
pub fn encoded(
    artifacts: &[InputArtifact],
    model: &ModelFolder,
    mask_errored_turns: bool,
    source: &str,
) -> Result<Vec<TokenizedTrajectory>> {
    let mut all = Vec::new();
    for artifact in artifacts {
        for rows in TableRowReader::<Trajectory>::open(&artifact.parquet())? {
            let rows = rows?;
            expect_same_text(model, &rows, source)?;
            for row in tokenize(model, &rows, mask_errored_turns) {
                all.push(row?);
            }
        }
    }
    Ok(all)
}

/// Reads packs of `data/tokenize`. Errors: data, if a pack is damaged.
pub fn packed(artifacts: &[InputArtifact]) -> Result<Vec<TokenizedTrajectory>> {
    let mut all = Vec::new();
    for artifact in artifacts {
        let path = artifact.parquet();
        for packs in TableRowReader::<TokenPack>::open(&path)? {
            for pack in packs? {
                all.extend(unpack(&pack).at(path.display())?);
            }
        }
    }
    Ok(all)
}

/// Splits rows by problem and returns (training, held out). About `share` of the problems are held out, and at least
/// one if there are two problems and `share` is above 0.
pub fn hold_out<R>(rows: Vec<R>, problem: fn(&R) -> &String, share: f64, chance: &Chance) -> (Vec<R>, Vec<R>) {
    let mut problems: Vec<String> =
        rows.iter().map(|row| problem(row).clone()).collect::<BTreeSet<_>>().into_iter().collect();
    if share <= 0.0 || problems.len() < 2 {
        return (rows, Vec::new());
    }
    chance.at("hold out", &[]).shuffle(&mut problems);
    let count = ((problems.len() as f64 * share).round() as usize).clamp(1, problems.len() - 1);
    let held: BTreeSet<String> = problems.into_iter().take(count).collect();
    rows.into_iter().partition(|row| !held.contains(problem(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_left_out_are_counted_with_the_limit() {
        let row = |tokens: usize| TokenizedTrajectory {
            contexts: vec![Example { tokens: vec![0; tokens], ..Example::default() }],
            ..TokenizedTrajectory::default()
        };
        let limit = TokenLimit { option: 0, context: 64 };
        let error = prepare(vec![row(70), row(80), row(3)], 64).expect_any(limit).unwrap_err();
        let counts = "of 3 rows, 2 have more than 64 tokens (the longest 80) and 1 have no tokens in the loss";
        assert!(error.message.contains(counts), "{error}");
        assert!(error.help.unwrap().contains("`max_position_embeddings`"));
        let limit = TokenLimit { option: 64, context: 512 };
        let error = prepare(vec![row(70)], 64).expect_any(limit).unwrap_err();
        assert_eq!(error.help.as_deref(), Some("raise `max_tokens`; the context of the model holds 512 tokens"));
        let error = prepare(vec![row(3)], 64).expect_any(limit).unwrap_err();
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
}

//! Reads pairs of token sequences from rows that mark which of two answers was chosen.

use super::answer_pair::{AnswerPair, loss_tokens, mask_shared};
use super::pair_file::PairFile;
use super::row_file::{RewardedRow, RowFile};
use crate::stages::sft::text_ranks::TextRanker;
use trainyard_api::{InputArtifact, StageContext};
use trainyard_core::{Error, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::examples::{expect_same_text, tokenize};
use trainyard_tables::{Trajectory, read_bounded};

/// Reward that distinguishes the chosen row from the rejected one; without it, the total reward does.
const REWARD: &str = "preference";

/// Counts of pairs that are left out, and of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairCounts {
    /// Number of groups with one row.
    pub incomplete: usize,
    /// Number of pairs with a conversation beyond the token limit.
    pub too_long: usize,
    /// Tokens of the longest conversation.
    pub longest: usize,
    /// Number of pairs with an answer without tokens in the loss.
    pub without_loss: usize,
    /// Number of turns shared by both answers of a pair and removed from the loss.
    pub shared_turns: usize,
}

/// Usable pairs, the ids of their problems, and counts of omitted rows.
pub struct AnswerPairs {
    /// Pairs in the order of the groups.
    pub pairs: PairFile,
    /// Ids of the problems of the pairs.
    pub problems: TextRanker,
    /// Counts of what is left out.
    pub counts: PairCounts,
}

/// Reads the pairs of some artifacts. `max_tokens` = token limit of a conversation.
///
/// Errors: data, naming the group that is not a pair, or the row that cannot be encoded; retryable, if the disk of
/// temporary files is full.
pub fn read(
    artifacts: &[InputArtifact],
    model: &ModelFolder,
    max_tokens: usize,
    source: &str,
    context: &StageContext,
) -> Result<AnswerPairs> {
    let file = |name: &str| context.scratch.join(name);
    let (pairs, problems) = (PairFile::create(&file("pairs"))?, TextRanker::create(&file("problem-ids"))?);
    let mut found = AnswerPairs { pairs, problems, counts: PairCounts::default() };
    for artifact in artifacts {
        let mut all = RowFile::create(&file("rows"))?;
        for rows in read_bounded::<Trajectory>(&artifact.parquet(), None)? {
            context.stop_if_cancelled()?;
            let rows = rows?;
            expect_same_text(model, &rows, source)?;
            for (row, tokens) in rows.iter().zip(tokenize(model, &rows, false)) {
                let preferred = row.rewards.get(REWARD).copied().unwrap_or(row.reward);
                all.push(row.group, preferred, &tokens?)?;
            }
        }
        all.each_group(|group, count, rows| match <[_; 2]>::try_from(rows) {
            Ok(rows) if count == 2 => {
                let (problem, pair) = pair(rows).map_err(|e| no_pair(&e, group, source))?;
                found.take(&problem, pair, max_tokens)
            }
            Ok(_) => Err(no_pair(&format!("has {count} rows"), group, source)),
            Err(_) => {
                found.counts.incomplete += 1;
                Ok(())
            }
        })?;
    }
    Ok(found)
}

impl AnswerPairs {
    fn take(&mut self, problem: &str, mut pair: AnswerPair, max_tokens: usize) -> Result<()> {
        if self.counts.keeps(&mut pair, max_tokens) {
            self.problems.push(problem)?;
            self.pairs.push(&pair)?;
        }
        Ok(())
    }
}

impl PairCounts {
    /// Removes shared turns from the loss and counts the pair. Returns whether it is usable.
    fn keeps(&mut self, pair: &mut AnswerPair, max_tokens: usize) -> bool {
        let shared = mask_shared(pair);
        self.longest = self.longest.max(pair.longest());
        if pair.longest() > max_tokens {
            self.too_long += 1;
            false
        } else if pair.sides.iter().any(|side| loss_tokens(side) == 0) {
            self.without_loss += 1;
            false
        } else {
            self.shared_turns += shared;
            true
        }
    }
}

/// Returns the rows of a group as a pair, with the id of its problem. Errors: the reason why the rows are not a pair.
fn pair([a, b]: [RewardedRow; 2]) -> Result<(String, AnswerPair), String> {
    let (chosen, rejected) = match a.0.total_cmp(&b.0) {
        std::cmp::Ordering::Greater => (a.1, b.1),
        std::cmp::Ordering::Less => (b.1, a.1),
        std::cmp::Ordering::Equal => return Err("has two rows of equal reward".to_string()),
    };
    if chosen.problem_id != rejected.problem_id {
        return Err(format!("is about two problems, `{}` and `{}`", chosen.problem_id, rejected.problem_id));
    }
    Ok((chosen.problem_id, AnswerPair { sides: [chosen.contexts, rejected.contexts] }))
}

fn no_pair(reason: &str, group: u32, source: &str) -> Error {
    Error::data(format!("group {group} of {source} {reason}, but a pair has a chosen and a rejected one"))
        .help("wire the output `preferences` of `data/pairs`, which makes pairs, or of `data/import`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_lm::examples::{Example, TokenizedTrajectory};

    /// Returns a context of these tokens, in which upper-case letters are the agent's.
    fn context(text: &str) -> Example {
        Example { tokens: text.bytes().map(u32::from).collect(), mask: text.bytes().map(|b| b < b'a').collect() }
    }
    fn row(reward: f64, problem: &str, text: &str) -> RewardedRow {
        let contexts = text.split('|').map(context).collect();
        (reward, TokenizedTrajectory { problem_id: problem.into(), contexts, ..TokenizedTrajectory::default() })
    }
    fn learned(side: &[Example]) -> String {
        let text =
            |c: &Example| c.tokens.iter().zip(&c.mask).filter(|(_, m)| **m).map(|(t, _)| *t as u8 as char).collect();
        side.iter().map(text).collect::<Vec<String>>().join("|")
    }

    #[test]
    fn better_row_is_chosen_and_invalid_groups_are_reported() {
        let (problem, made) = pair([row(0.0, "p", "qB"), row(1.0, "p", "qA")]).unwrap();
        assert_eq!((problem.as_str(), made.sides.map(|side| learned(&side))), ("p", ["A", "B"].map(String::from)));
        let wrong = |rows| pair(rows).unwrap_err();
        assert_eq!(wrong([row(1.0, "p", "qA"), row(1.0, "p", "qB")]), "has two rows of equal reward");
        assert!(wrong([row(1.0, "p", "qA"), row(0.0, "r", "qB")]).contains("`p` and `r`"));
        let error = no_pair("has 8 rows", 3, "`preferences`");
        assert!(error.message.contains("group 3 of `preferences` has 8 rows") && error.help.is_some());
    }

    #[test]
    fn shared_turns_are_context() {
        let take = |chosen: &str, rejected: &str| {
            let (_, mut pair) = pair([row(1.0, "p", chosen), row(0.0, "p", rejected)]).unwrap();
            let shared = mask_shared(&mut pair);
            (shared, pair.sides.map(|side| learned(&side)))
        };
        let expect = |shared: usize, chosen: &str, rejected: &str| (shared, [chosen.to_string(), rejected.to_string()]);
        assert_eq!(take("qABoC", "qABoD"), expect(1, "C", "D"));
        assert_eq!(take("qABoCE", "qABoCD"), expect(1, "CE", "CD"), "a turn that only begins alike stays whole");
        assert_eq!(take("qABxC", "qAByC"), expect(1, "C", "C"), "another observation after the same turn");
        assert_eq!(take("qAoBoC", "qAoBoD"), expect(2, "C", "D"));
        assert_eq!(take("qAB", "qABC"), expect(0, "AB", "ABC"));
        assert_eq!(take("qA|qaB", "qA|qaC"), expect(1, "B", "C"), "an equal context goes as a whole");
    }

    #[test]
    fn unusable_pairs_are_counted() {
        let mut counts = PairCounts::default();
        let mut kept = Vec::new();
        for (chosen, rejected) in [("qA", "qB"), ("qAAAA", "qB"), ("qA", "qb"), ("qAoA", "qAob")] {
            let (_, mut pair) = pair([row(1.0, "p", chosen), row(0.0, "p", rejected)]).unwrap();
            if counts.keeps(&mut pair, 4) {
                kept.push(pair.tokens());
            }
        }
        assert_eq!((kept, counts.too_long, counts.without_loss, counts.shared_turns), (vec![4], 1, 2, 0));
    }
}

//! Converts the problems of the stage to the form that curricula and strategies use: level, hints, tokens of
//! demonstrations.
//!
//! Parts do not read text. A hint is a line of the problem's worked solution, and a demonstration is cut into the
//! tokens that an agent would have sampled, turn by turn, by the same template and tokenizer.

use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_learn::{PoolDemonstration, PoolProblem, ProblemPool};
use trainyard_lm::template::{ChatEncoder, ConversationTokens, TokenizedConversation};
use trainyard_tables::{Problem, Trajectory};

/// Builds the pool. A demonstration belongs to the problem with its problem id. `positions`: maximum number of tokens
/// of the model.
pub fn pool(
    problems: &[Problem],
    demonstrations: &[Trajectory],
    chat: &ChatEncoder,
    positions: usize,
) -> Result<ProblemPool> {
    let mut by_problem: BTreeMap<&str, Vec<PoolDemonstration>> = BTreeMap::new();
    for row in demonstrations {
        let encoded = TokenizedConversation::encode_row(chat, row)
            .and_then(|encoded| fitting(encoded, positions))
            .map_err(|e| e.at(format!("row `{}` of input `demonstrations`", row.id)))?;
        let demonstration = PoolDemonstration { id: row.id.clone(), turns: own_turns(&encoded) };
        by_problem.entry(&row.problem_id).or_default().push(demonstration);
    }
    let one = |p: &Problem| PoolProblem {
        id: p.id.clone(),
        level: p.level,
        hints: p.reference.iter().flat_map(|text| text.lines()).map(str::to_string).collect(),
        demonstrations: by_problem.get(p.id.as_str()).cloned().unwrap_or_default(),
    };
    Ok(ProblemPool { problems: problems.iter().map(one).collect() })
}

fn fitting(encoded: ConversationTokens, positions: usize) -> Result<ConversationTokens> {
    if encoded.longest() <= positions {
        return Ok(encoded);
    }
    let message = format!("{} tokens, but the model has {positions} positions", encoded.longest());
    Err(Error::invalid(message)
        .help("leave the row out by a rule of `data/filter`, or raise max_position_embeddings of `model/init`"))
}

/// Returns the agent's tokens turn by turn, including the token that ends each turn.
fn own_turns(encoded: &ConversationTokens) -> Vec<Vec<u32>> {
    let mut turns: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for (t, _) in encoded.loss_mask.iter().enumerate().filter(|(_, m)| **m) {
        turns.entry(encoded.turn[t]).or_default().push(encoded.token_ids[t]);
    }
    turns.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{demonstrations, sums, tiny_model};

    #[test]
    fn a_demonstration_is_cut_into_the_turns_of_its_agent() {
        let model = tiny_model(16, 1, 1);
        let problems = sums(3, 3, 2);
        let found =
            pool(&problems, &demonstrations(2, 3, 2), &model.chat, model.config.max_position_embeddings).unwrap();
        let demonstration = &found.problems[0].demonstrations[0];
        assert_eq!(demonstration.id, "demo-sum-0");
        let [call, answer] = demonstration.turns.as_slice() else { panic!("two turns") };
        let tokenizer = model.chat.tokenizer();
        assert_eq!(model.chat.content(call).unwrap(), format!("<tool_call>{}</tool_call>", problems[0].canonical));
        assert_eq!(model.chat.content(answer).unwrap(), problems[0].answer);
        assert!(call.last() == answer.last() && tokenizer.is_added(*call.last().unwrap()));
        assert!(found.problems[2].demonstrations.is_empty() && found.problems[2].hints.is_empty());
    }

    #[test]
    fn a_demonstration_longer_than_the_model_is_named() {
        let model = tiny_model(16, 1, 1);
        let rows = demonstrations(2, 3, 2);
        let error = pool(&sums(3, 3, 2), &rows, &model.chat, 5).unwrap_err().to_string();
        assert!(error.contains(&rows[0].id) && error.contains("5 positions"), "{error}");
    }
}

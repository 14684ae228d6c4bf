//! Converts rows with tokens to sequences of token ids with the loss mask.

use super::omissions::ExportOmissions;
use super::turns::masked_turns;
use trainyard_core::{Error, Result};
use trainyard_tables::{OrderedValue, TokenPack, Trajectory, mask_turns};

/// Label of a token out of the loss, which losses of PyTorch ignore.
const IGNORED: i64 = -100;

/// One sequence. A trajectory whose template rewrote earlier turns has several.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenSequence {
    pub tokens: Vec<u32>,
    /// Loss mask, as long as `tokens`: true where the token is learned.
    pub mask: Vec<bool>,
}

impl TokenSequence {
    /// Returns `input_ids`, `labels` (the ids, −100 out of the loss) and `assistant_masks` (1 in the loss).
    pub fn row(&self) -> OrderedValue {
        let label = |(token, learned): (&u32, &bool)| if *learned { i64::from(*token) } else { IGNORED };
        OrderedValue::object([
            ("input_ids", OrderedValue::numbers(self.tokens.iter().copied())),
            ("labels", OrderedValue::numbers(self.tokens.iter().zip(&self.mask).map(label))),
            ("assistant_masks", OrderedValue::numbers(self.mask.iter().map(|learned| i64::from(*learned)))),
        ])
    }
}

/// Rejects a row whose ids, loss mask and turns differ in length. Errors: data, naming the row.
pub fn check_lengths(row: &Trajectory) -> Result<()> {
    let length = row.token_ids.len();
    if row.loss_mask.len() == length && row.turn.len() == length {
        return Ok(());
    }
    Err(Error::data(format!("row `{}`: per-token columns differ in length", row.id))
        .help("rebuild the artifact that wrote it"))
}

/// Returns the sequences of a trajectory with tokens, with context turns out of the loss. Errors: data, if its
/// per-token columns differ in length.
pub fn of_trajectory(row: &Trajectory, omissions: &mut ExportOmissions) -> Result<Vec<TokenSequence>> {
    check_lengths(row)?;
    let mut mask = row.loss_mask.clone();
    omissions.add(
        "turns excluded from the loss (a failed call, or no text)",
        mask_turns(&mut mask, &row.turn, &masked_turns(row)),
    );
    let sequence = |place: std::ops::Range<usize>| TokenSequence {
        tokens: row.token_ids[place.clone()].to_vec(),
        mask: mask[place].to_vec(),
    };
    Ok(row.contexts().into_iter().map(sequence).collect())
}

/// Returns the sequences of a pack of `data/tokenize`. Errors: data, if the lengths of its lists are inconsistent.
pub fn of_pack(pack: &TokenPack) -> Result<Vec<TokenSequence>> {
    let total: usize = pack.lengths.iter().map(|length| *length as usize).sum();
    if total != pack.tokens.len() || total != pack.loss_mask.len() {
        return Err(Error::data("the lists of a token pack differ in length").help("run `data/tokenize` again"));
    }
    let mut start = 0;
    let sequence = |length: &u32| {
        let place = start..start + *length as usize;
        start = place.end;
        TokenSequence { tokens: pack.tokens[place.clone()].to_vec(), mask: pack.loss_mask[place].to_vec() }
    };
    Ok(pack.lengths.iter().map(sequence).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    #[test]
    fn failed_turns_are_masked_and_contexts_are_separate() {
        let messages = ["user", "assistant", "tool", "assistant"];
        let messages = messages.map(|role| match role {
            "tool" => Message::new(role, "error: no"),
            "assistant" => Message { tool_calls: Some("[]".into()), ..Message::new(role, "x") },
            _ => Message::new(role, "q"),
        });
        let row = Trajectory {
            messages: messages.to_vec(),
            token_ids: vec![1, 2, 3, 4, 5],
            loss_mask: vec![false, true, false, true, true],
            turn: vec![0, 0, 1, 1, 1],
            turns: 2,
            tool_errors: 1,
            restarts: vec![2],
            ..Trajectory::default()
        };
        let mut omissions = ExportOmissions::default();
        let sequences = of_trajectory(&row, &mut omissions).unwrap();
        assert_eq!(sequences[0], TokenSequence { tokens: vec![1, 2], mask: vec![false, false] });
        assert_eq!(
            sequences[1].row().to_json().unwrap(),
            r#"{"input_ids":[3,4,5],"labels":[-100,4,5],"assistant_masks":[0,1,1]}"#
        );
        assert_eq!(omissions.counts().map(|(_, count)| count).collect::<Vec<_>>(), [1]);
        assert!(of_trajectory(&Trajectory { turn: vec![], ..row }, &mut omissions).is_err());
        let pack = TokenPack {
            tokens: vec![1, 2, 3],
            loss_mask: vec![true, false, true],
            lengths: vec![1, 2],
            ..TokenPack::default()
        };
        assert_eq!(of_pack(&pack).unwrap()[1], TokenSequence { tokens: vec![2, 3], mask: vec![false, true] });
        assert!(of_pack(&TokenPack { lengths: vec![9], ..pack }).is_err());
    }
}

//! Splits rows whose chat template rewrote earlier turns. A model reads each context of such a row as a separate
//! sequence.

use trainyard_core::{Error, Result};
use trainyard_lm::backend::TokenPosition;
use trainyard_tables::Trajectory;

/// Splits rows into one sequence per context. Returns the sequences, and `places` as positions in them.
pub fn by_context<'a>(
    rows: impl Iterator<Item = &'a Trajectory>,
    places: &[TokenPosition],
) -> (Vec<&'a [u32]>, Vec<TokenPosition>) {
    let (mut sequences, mut starts) = (Vec::new(), Vec::new());
    for row in rows {
        let contexts = row.contexts();
        starts.push((sequences.len(), contexts.iter().map(|c| c.start).collect::<Vec<usize>>()));
        sequences.extend(contexts.into_iter().map(|c| &row.token_ids[c]));
    }
    let moved = |place: &TokenPosition| {
        let (first, starts) = &starts[place.sequence];
        let context = starts.partition_point(|start| *start <= place.token) - 1;
        TokenPosition { sequence: first + context, token: place.token - starts[context] }
    };
    (sequences, places.iter().map(moved).collect())
}

/// Splits rows into one sequence per context. Returns the sequences, and the last tokens of the steps in each of them.
pub fn steps_by_context<'a>(rows: &[&'a Trajectory]) -> (Vec<&'a [u32]>, Vec<Vec<u32>>) {
    let contexts = rows.iter().flat_map(|row| row.contexts().into_iter().map(move |context| (*row, context)));
    let one = |(row, context): (&'a Trajectory, std::ops::Range<usize>)| {
        let last_tokens = row.step_ends.iter().map(|end| *end as usize - 1).filter(|last| context.contains(last));
        let last_tokens = last_tokens.map(|last| (last - context.start) as u32).collect();
        (&row.token_ids[context.clone()], last_tokens)
    };
    contexts.map(one).unzip()
}

/// Rejects a row of several contexts, for stages that need the whole episode in one sequence. Errors: invalid, naming
/// the row and `source`.
pub fn expect_one_context<'a>(rows: impl IntoIterator<Item = &'a Trajectory>, source: &str) -> Result<()> {
    match rows.into_iter().find(|row| !row.restarts.is_empty()) {
        None => Ok(()),
        Some(row) => {
            let message = format!("row `{}` of {source}: the chat template rewrites earlier turns in it", row.id);
            Err(Error::invalid(message)
                .help("use a chat template that keeps earlier turns: step labels need an episode in one sequence"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_become_sequences() {
        let row = |restarts: &[u32]| Trajectory {
            token_ids: (0..7).collect(),
            restarts: restarts.to_vec(),
            step_ends: vec![2, 5, 7],
            ..Trajectory::default()
        };
        let rows = [row(&[]), row(&[2, 5])];
        let places = [(0, 6), (1, 1), (1, 2), (1, 6)].map(|(sequence, token)| TokenPosition { sequence, token });
        let (sequences, moved) = by_context(rows.iter(), &places);
        assert_eq!(sequences, [&[0, 1, 2, 3, 4, 5, 6][..], &[0, 1], &[2, 3, 4], &[5, 6]]);
        let expected = [(0, 6), (1, 1), (2, 0), (3, 1)].map(|(sequence, token)| TokenPosition { sequence, token });
        assert_eq!(moved, expected);
        let (_, last_tokens) = steps_by_context(&rows.iter().collect::<Vec<_>>());
        assert_eq!(last_tokens, [vec![1, 4, 6], vec![1], vec![2], vec![1]]);
        assert!(expect_one_context(&rows[..1], "x").is_ok() && expect_one_context(&rows, "x").is_err());
        assert_eq!(rows[1].context_before(4), [2, 3]);
    }
}

//! Defines the row of a token pack table: concatenated token sequences with the fields that training reads.

use crate::decode::BatchColumns;
use crate::encode::{bool_lists, lists, nested, strings};
use crate::extra::ExtraColumns;
use crate::rows::TableRow;
use crate::schema::{list, required};
use arrow_array::ArrayRef;
use arrow_array::types::UInt32Type;
use arrow_schema::DataType::{Boolean, UInt32, Utf8};
use arrow_schema::{Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use trainyard_core::Result;

/// A pack of token sequences. The first three lists have one entry per token; the other lists describe the sequences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenPack {
    /// Token ids of all sequences, concatenated.
    pub tokens: Vec<u32>,
    /// True for tokens in the loss.
    pub loss_mask: Vec<bool>,
    /// Position of each token in its sequence, from 0.
    pub positions: Vec<u32>,
    /// Number of tokens of each sequence.
    pub lengths: Vec<u32>,
    /// Start of each sequence, followed by the number of all tokens (`cu_seqlens` of attention kernels).
    pub bounds: Vec<u32>,
    /// Number of each sequence's trajectory, from 0, over all packs.
    pub rows: Vec<u32>,
    /// Id of each sequence's trajectory.
    pub trajectories: Vec<String>,
    /// Id of each sequence's problem.
    pub problems: Vec<String>,
    /// Turns of the trajectory that are context and not in the loss; the same for all its sequences.
    pub masked_turns: Vec<u32>,
}

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let numbers = ["positions", "lengths", "bounds", "rows"].map(|name| required(name, list(UInt32)));
    let texts = ["trajectories", "problems"].map(|name| required(name, list(Utf8)));
    let mut columns = vec![required("tokens", list(UInt32)), required("loss_mask", list(Boolean))];
    columns.extend(numbers);
    columns.extend(texts);
    columns.push(required("masked_turns", list(UInt32)));
    // Only one key: the order of a hash map must not reach the file.
    Arc::new(Schema::new_with_metadata(columns, HashMap::from([("pack_format".to_string(), "1".to_string())])))
});

impl TableRow for TokenPack {
    /// Groups are small, because a pack has thousands of tokens.
    const GROUP: usize = 256;

    fn extra(_: &[&Self]) -> ExtraColumns {
        ExtraColumns::default()
    }
    fn schema(_: ExtraColumns) -> SchemaRef {
        SCHEMA.clone()
    }
    fn encode_column(rows: &[&Self], name: &str, _: ExtraColumns) -> Option<ArrayRef> {
        let texts = |get: fn(&Self) -> &Vec<String>| {
            let all = strings(rows.iter().flat_map(|row| get(row).iter().map(String::as_str)));
            nested(rows.iter().map(|row| get(row).len()), all, None)
        };
        Some(match name {
            "tokens" => lists::<UInt32Type>(rows.iter().map(|row| row.tokens.as_slice())),
            "loss_mask" => bool_lists(rows.iter().map(|row| row.loss_mask.as_slice())),
            "positions" => lists::<UInt32Type>(rows.iter().map(|row| row.positions.as_slice())),
            "lengths" => lists::<UInt32Type>(rows.iter().map(|row| row.lengths.as_slice())),
            "bounds" => lists::<UInt32Type>(rows.iter().map(|row| row.bounds.as_slice())),
            "rows" => lists::<UInt32Type>(rows.iter().map(|row| row.rows.as_slice())),
            "trajectories" => texts(|row| &row.trajectories),
            "problems" => texts(|row| &row.problems),
            "masked_turns" => lists::<UInt32Type>(rows.iter().map(|row| row.masked_turns.as_slice())),
            _ => return None,
        })
    }
    fn decode(columns: &BatchColumns<'_>) -> Result<Vec<Self>> {
        let mut tokens = columns.lists::<UInt32Type>("tokens")?.into_iter();
        let mut masks = columns.bool_lists("loss_mask")?.into_iter();
        let mut positions = columns.lists::<UInt32Type>("positions")?.into_iter();
        let mut lengths = columns.lists::<UInt32Type>("lengths")?.into_iter();
        let mut bounds = columns.lists::<UInt32Type>("bounds")?.into_iter();
        let mut rows = columns.lists::<UInt32Type>("rows")?.into_iter();
        let mut trajectories = columns.string_lists("trajectories")?.into_iter();
        let mut problems = columns.string_lists("problems")?.into_iter();
        let mut masked_turns = columns.lists::<UInt32Type>("masked_turns")?.into_iter();
        let mut pack = || {
            Some(Self {
                tokens: tokens.next()?,
                loss_mask: masks.next()?,
                positions: positions.next()?,
                lengths: lengths.next()?,
                bounds: bounds.next()?,
                rows: rows.next()?,
                trajectories: trajectories.next()?,
                problems: problems.next()?,
                masked_turns: masked_turns.next()?,
            })
        };
        Ok((0..columns.rows()).map_while(|_| pack()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read_rows, write_rows};

    #[test]
    fn packs_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let pack = |n: u32| TokenPack {
            tokens: (0..n).collect(),
            loss_mask: (0..n).map(|i| i % 2 == 0).collect(),
            positions: (0..n).collect(),
            lengths: vec![n],
            bounds: vec![0, n],
            rows: vec![n],
            trajectories: vec![n.to_string()],
            problems: vec!["p".into()],
            masked_turns: vec![1],
        };
        let packs: Vec<TokenPack> = (0..600).map(|n| pack(n % 7)).collect();
        write_rows(&path, &packs).unwrap();
        assert_eq!(read_rows::<TokenPack>(&path).unwrap(), packs);
    }
}

//! Packs the tokens of trajectories: sequences one after another, up to a maximum number of tokens.
//!
//! A trajectory is never divided. Packs depend only on the order of the trajectories and the maximum, regardless of the
//! number of encoding threads.

use super::{Example, TokenizedTrajectory};
use trainyard_core::{Error, Result};
use trainyard_tables::TokenPack;

/// Packs trajectories in their order.
pub struct Packer {
    max_tokens: usize,
    rows: u32,
    pack: TokenPack,
}

impl Packer {
    /// Creates a packer for packs of at most `max_tokens` tokens; a longer trajectory gets a separate pack.
    pub fn new(max_tokens: usize) -> Self {
        Self { max_tokens, rows: 0, pack: TokenPack::default() }
    }
    /// Adds a trajectory. Returns the previous pack if the trajectory did not fit into it.
    pub fn push(&mut self, row: &TokenizedTrajectory) -> Option<TokenPack> {
        let tokens: usize = row.contexts.iter().map(|context| context.tokens.len()).sum();
        let full = !self.pack.lengths.is_empty() && self.pack.tokens.len() + tokens > self.max_tokens;
        let before = full.then(|| std::mem::take(&mut self.pack));
        for context in &row.contexts {
            self.add(row, context);
        }
        self.rows += 1;
        before
    }
    /// Returns the last pack, or `None` if it has no trajectory.
    pub fn finish(self) -> Option<TokenPack> {
        (!self.pack.lengths.is_empty()).then_some(self.pack)
    }

    fn add(&mut self, row: &TokenizedTrajectory, context: &Example) {
        let pack = &mut self.pack;
        let length = context.tokens.len() as u32;
        if pack.bounds.is_empty() {
            pack.bounds.push(0);
        }
        pack.tokens.extend_from_slice(&context.tokens);
        pack.loss_mask.extend_from_slice(&context.mask);
        pack.positions.extend(0..length);
        pack.lengths.push(length);
        pack.bounds.push(pack.tokens.len() as u32);
        pack.rows.push(self.rows);
        pack.trajectories.push(row.id.clone());
        pack.problems.push(row.problem_id.clone());
        pack.masked_turns.push(row.masked_turns as u32);
    }
}

/// Returns the problem ids of a pack's trajectories. The pack may lack all columns but `rows` and `problems`. Errors:
/// data, if these differ in length.
pub fn pack_problems(pack: &TokenPack) -> Result<Vec<&str>> {
    let (rows, problems) = (&pack.rows, &pack.problems);
    if rows.len() != problems.len() {
        return Err(inconsistent());
    }
    let first = |i: &usize| *i == 0 || rows[*i] != rows[*i - 1];
    Ok((0..rows.len()).filter(first).map(|i| problems[i].as_str()).collect())
}

/// Returns the trajectories of a pack. Errors: data, if the lengths of its lists are inconsistent.
pub fn unpack(pack: &TokenPack) -> Result<Vec<TokenizedTrajectory>> {
    let sequences = pack.lengths.len();
    let by_sequence = [pack.rows.len(), pack.trajectories.len(), pack.problems.len(), pack.masked_turns.len()];
    let tokens: usize = pack.lengths.iter().map(|length| *length as usize).sum();
    if by_sequence.iter().any(|n| *n != sequences) || pack.tokens.len() != tokens || pack.loss_mask.len() != tokens {
        return Err(inconsistent());
    }
    let mut rows: Vec<TokenizedTrajectory> = Vec::new();
    let mut start = 0;
    for (i, length) in pack.lengths.iter().enumerate() {
        let end = start + *length as usize;
        let context = Example { tokens: pack.tokens[start..end].to_vec(), mask: pack.loss_mask[start..end].to_vec() };
        start = end;
        match rows.last_mut() {
            Some(row) if i > 0 && pack.rows[i] == pack.rows[i - 1] => row.contexts.push(context),
            _ => rows.push(TokenizedTrajectory {
                id: pack.trajectories[i].clone(),
                problem_id: pack.problems[i].clone(),
                contexts: vec![context],
                masked_turns: pack.masked_turns[i] as usize,
            }),
        }
    }
    Ok(rows)
}

fn inconsistent() -> Error {
    Error::data("the lists of a token pack differ in length").help("create them again with `data/tokenize`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, lengths: &[usize]) -> TokenizedTrajectory {
        let context = |n: &usize| Example { tokens: (0..*n as u32).collect(), mask: vec![true; *n] };
        TokenizedTrajectory {
            id: id.into(),
            problem_id: format!("p{id}"),
            contexts: lengths.iter().map(context).collect(),
            masked_turns: id.len(),
        }
    }

    #[test]
    fn trajectories_are_packed_whole_and_in_order() {
        let rows = [row("a", &[3]), row("b", &[2, 2]), row("c", &[9]), row("d", &[0]), row("e", &[1, 1])];
        let mut packer = Packer::new(6);
        let mut packs: Vec<TokenPack> = rows.iter().filter_map(|row| packer.push(row)).collect();
        packs.extend(packer.finish());
        assert_eq!(packs.iter().map(|p| p.tokens.len()).collect::<Vec<_>>(), [3, 4, 9, 2]);
        assert_eq!((&packs[1].bounds[..], &packs[1].positions[..]), (&[0, 2, 4][..], &[0, 1, 0, 1][..]));
        assert_eq!(packs[3].rows, [3, 4, 4]);
        let back: Vec<TokenizedTrajectory> = packs.iter().flat_map(|pack| unpack(pack).unwrap()).collect();
        assert_eq!(back, rows);
        for pack in &packs {
            let (rows, problems) = (pack.rows.clone(), pack.problems.clone());
            let part = TokenPack { rows, problems, ..TokenPack::default() };
            let expected: Vec<String> = unpack(pack).unwrap().into_iter().map(|row| row.problem_id).collect();
            assert_eq!(pack_problems(&part).unwrap(), expected);
        }
        assert!(pack_problems(&TokenPack { rows: vec![1], ..TokenPack::default() }).is_err());
        let inconsistent = TokenPack { loss_mask: vec![], ..packs[0].clone() };
        assert!(unpack(&inconsistent).unwrap_err().message.contains("differ in length"));
    }
}

//! Chooses the pairs of all groups, and brings them into the order of the output.
//!
//! Values are compared without rows. To compare steps, the tokens of a group are held from its first to its last row in
//! the input, so rows of one problem that follow each other take little memory. A problem of which several prompts have
//! pairs takes the texts of these prompts.

use super::candidates::{self, CandidateGroup, CandidateRow, PROMPT_COLUMNS, PairCandidates, VALUE_COLUMNS};
use super::choose::{choose_by_steps, choose_by_value};
use super::config::{PairCut, PairsConfig};
use super::pair::RowPair;
use crate::row_files::RowFiles;
use crate::row_selection::RowSelection;
use std::collections::BTreeMap;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Error, Result};
use trainyard_tables::{Trajectory, decode_part};

/// Columns by which steps are compared, besides those of the value. Errors name the id.
const STEP_COLUMNS: [&str; 6] = ["id", "token_ids", "loss_mask", "turn", "step_ends", "restarts"];

/// A pair of rows of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenPair {
    /// Numbers of the rows in the input, each with its number of kept tokens.
    pub pair: RowPair,
    /// Whether the labels are exchanged.
    pub flip: bool,
}

/// Pairs of one group; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedGroup {
    /// Number of the group.
    pub group: u32,
    /// First row of the group in the input.
    first: usize,
    pub pairs: Vec<ChosenPair>,
}

/// Returns the pairs of all groups that have some, in the order in which they are found. `at_group` is called for each
/// group; its errors end the choice.
///
/// Errors: those of reading; data, if steps are compared and a row has no tokens or has several contexts.
pub fn choose(
    files: &RowFiles<'_, Trajectory>,
    candidates: &PairCandidates,
    config: &PairsConfig,
    at_group: impl Fn() -> Result<()>,
) -> Result<Vec<PairedGroup>> {
    let chance = Chance::new(config.seed).child("pairs", &[]).child("problem", &[]);
    let draws_of = |problem: &str| chance.child(problem, &[]).at("pairs", &[]);
    let mut paired = Vec::new();
    match config.cut {
        PairCut::End => {
            for group in candidates.groups() {
                at_group()?;
                let mut draws = draws_of(group.problem);
                let values: Vec<f64> = group.rows.iter().map(|row| row.value).collect();
                let pairs = choose_by_value(&values, config, &mut draws);
                paired.extend(with_flips(group, pairs, config, &mut draws));
            }
        }
        PairCut::Step => each_group(files, candidates, |group, rows| {
            at_group()?;
            let mut draws = draws_of(group.problem);
            let pairs = choose_by_steps(rows, config, &mut draws)?;
            paired.extend(with_flips(group, pairs, config, &mut draws));
            Ok(())
        })?,
    }
    Ok(paired)
}

/// Draws which pairs of a group are flipped. Returns `None` for a group without pairs.
fn with_flips(
    group: CandidateGroup<'_>,
    pairs: Vec<RowPair>,
    config: &PairsConfig,
    draws: &mut PhiloxRng,
) -> Option<PairedGroup> {
    let mut chosen = |pair: RowPair| ChosenPair {
        pair: pair.map(|index| group.rows[index].row),
        flip: config.flip > 0.0 && draws.uniform() < config.flip,
    };
    let pairs: Vec<ChosenPair> = pairs.into_iter().map(&mut chosen).collect();
    (!pairs.is_empty()).then(|| PairedGroup { group: group.number, first: group.rows[0].row, pairs })
}

/// Passes the rows of each group on, with the columns of steps and values, as soon as all of them are read.
fn each_group(
    files: &RowFiles<'_, Trajectory>,
    candidates: &PairCandidates,
    mut at: impl FnMut(CandidateGroup<'_>, &[Trajectory]) -> Result<()>,
) -> Result<()> {
    let groups: Vec<CandidateGroup<'_>> = candidates.groups().collect();
    let mut rows: Vec<&CandidateRow> = groups.iter().flat_map(|group| group.rows).collect();
    rows.sort_unstable_by_key(|row| row.row);
    let selection = RowSelection::of(files, rows.iter().map(|row| row.row))?;
    let columns: Vec<String> = STEP_COLUMNS.iter().chain(&VALUE_COLUMNS).map(ToString::to_string).collect();
    let mut open: BTreeMap<u32, Vec<Trajectory>> = BTreeMap::new();
    let mut next = rows.into_iter();
    for batch in selection.batches(Some(&columns)) {
        let (path, batch) = batch?;
        for (row, candidate) in decode_part::<Trajectory>(path, &batch)?.into_iter().zip(&mut next) {
            let group = groups[candidate.group() as usize];
            let read = open.entry(group.number).or_default();
            read.push(row);
            if read.len() == group.rows.len() {
                at(group, read)?;
                open.remove(&group.number);
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(Error::bug("the input lost rows between two readings")) }
}

/// Sorts groups by problem, and groups of one problem by their prompts. Errors: those of reading.
pub fn sort(paired: &mut [PairedGroup], candidates: &PairCandidates, files: &RowFiles<'_, Trajectory>) -> Result<()> {
    paired.sort_by(|a, b| (candidates.problem(a.group), a.group).cmp(&(candidates.problem(b.group), b.group)));
    let of_one_problem = |a: &PairedGroup, b: &PairedGroup| candidates.problem(a.group) == candidates.problem(b.group);
    let several = paired.chunk_by(of_one_problem).filter(|groups| groups.len() > 1).flatten();
    let mut firsts: Vec<(usize, u32)> = several.map(|group| (group.first, group.group)).collect();
    if firsts.is_empty() {
        return Ok(());
    }
    firsts.sort_unstable();
    let selection = RowSelection::of(files, firsts.iter().map(|(row, _)| *row))?;
    let mut prompts: BTreeMap<u32, String> = BTreeMap::new();
    let mut next = firsts.iter();
    for batch in selection.batches(Some(&PROMPT_COLUMNS.map(String::from))) {
        let (path, batch) = batch?;
        let rows = decode_part::<Trajectory>(path, &batch)?;
        prompts.extend(rows.iter().zip(&mut next).map(|(row, (_, group))| (*group, candidates::prompt(row))));
    }
    let key = |group: &PairedGroup| (candidates.problem(group.group), prompts.get(&group.group));
    paired.sort_by(|a, b| key(a).cmp(&key(b)));
    Ok(())
}

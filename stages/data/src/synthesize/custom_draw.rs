//! Draws problems from a program or a service, split by split, until each split has its number of problems and no
//! problem occurs twice.

use super::custom_problem::{SolvedProblem, read};
use super::distinct::DistinctProblems;
use super::splits::Split;
use crate::hash::xxh64;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::{Chance, Result};
use trainyard_envs::programs::{BatchSize, request_items};
use trainyard_process::ProgramService;

/// A level counts as exhausted after twenty draws per wanted problem plus this many.
const MOST_MISSES: u64 = 1_000;

/// A source of problems, and its settings.
pub struct ProblemSource<'a> {
    /// Program or service that responds.
    pub peer: &'a dyn ProgramService,
    /// Maximum problems in one request.
    pub batch: BatchSize,
    /// Kind of the method, which is the source of its problems.
    pub kind: &'static str,
    /// Environment of the problems.
    pub environment: &'a str,
    /// Highest level; the lowest is 1.
    pub levels: u32,
    /// Source of all seeds.
    pub chance: Chance,
}

/// Requested problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ProblemRequest<'a> {
    split: &'a str,
    level: u32,
    index: u64,
    seed: u64,
}

impl ProblemSource<'_> {
    /// Draws all splits and returns the problems in order of split, level and number. No canonical form occurs twice.
    /// Errors: invalid, if a level has too few distinct problems; those of the peer.
    pub fn draw_all(
        &self,
        splits: &BTreeMap<String, Split>,
        progress: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Vec<SolvedProblem>> {
        let mut distinct = DistinctProblems::default();
        let mut all: BTreeMap<&String, Vec<SolvedProblem>> = BTreeMap::new();
        let size = |split: &Split| split.counts(self.levels).values().sum::<u64>();
        // The smallest split draws first, so that a test split gets its share of rare problems.
        let mut order: Vec<(&String, &Split)> = splits.iter().collect();
        order.sort_by_key(|(name, split)| (size(split), *name));
        for (name, split) in order {
            let problems = all.entry(name).or_default();
            for (level, count) in split.counts(self.levels) {
                problems.extend(self.draw(name, level, count, &mut distinct)?);
                progress(distinct.count())?;
            }
        }
        Ok(all.into_values().flatten().collect())
    }

    fn draw(&self, split: &str, level: u32, count: u64, distinct: &mut DistinctProblems) -> Result<Vec<SolvedProblem>> {
        let mut draws = distinct.level(split, level);
        let chance = self.chance.child("split", &[xxh64(split.as_bytes(), 0)]);
        let max_draws = count.saturating_mul(20) + MOST_MISSES;
        let (mut solved, mut next) = (Vec::new(), 0);
        while (solved.len() as u64) < count && next < max_draws {
            // Request full batches, because the last missing problems may take many draws.
            let missing = (count - solved.len() as u64).max(self.batch.0 as u64);
            let end = (next + missing).min(max_draws);
            let requests: Vec<ProblemRequest<'_>> =
                (next..end).map(|index| problem_request(split, level, index, &chance)).collect();
            next = end;
            for (request, row) in requests.iter().zip(request_items(self.peer, self.batch, "generate", &requests)?) {
                let at = || format!("{}: level {level}, index {}", self.peer.place(), request.index);
                let row = row.map_err(|exception| exception.error().at(at()))?;
                let Some(mut drawn) = read(&row, level, self.kind, self.environment).map_err(|e| e.at(at()))? else {
                    continue;
                };
                if (solved.len() as u64) < count && draws.add(&drawn.problem.canonical) {
                    drawn.problem.split = split.to_string();
                    solved.push(drawn);
                }
            }
        }
        if (solved.len() as u64) < count {
            let error = draws.too_few(solved.len() as u64, (count, next), ", or vary problems more by `seed`");
            return Err(error.at(self.peer.place()));
        }
        Ok(solved)
    }
}

/// Creates a request. Its seed has 53 bits, so that it is exact in languages whose numbers are doubles.
fn problem_request<'a>(split: &'a str, level: u32, index: u64, chance: &Chance) -> ProblemRequest<'a> {
    let seed = chance.at("problem", &[u64::from(level), index]).next_u64() >> 11;
    ProblemRequest { split, level, index, seed }
}

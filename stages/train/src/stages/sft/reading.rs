//! Reads the rows for training and the held-out rows, and writes their token sequences to temporary files.
//!
//! Every table is read in bounded batches. Where problems are held out of the training data, a first pass reads only
//! the ids of problems, so that the second one knows where each row belongs.

use super::config::SftConfig;
use super::data::{SftExamples, held_out_rows};
use super::text_ranks::TextRanker;
use crate::backend_config::TrainOptions as _;
use std::path::Path;
use trainyard_api::stage::refuse;
use trainyard_api::{InputArtifact, StageContext};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::examples::{TokenizedTrajectory, expect_same_text, pack_problems, tokenize, unpack};
use trainyard_lm::stages::tokenize::{PORT, expect_compatible_tokens};
use trainyard_tables::{TokenPack, Trajectory, read_bounded};

/// Table of rows that a port gives.
#[derive(Debug, Clone, Copy)]
enum RowTable<'a> {
    /// Trajectories of the named port, to be encoded.
    Trajectories(&'a [InputArtifact], &'a str),
    /// Packs of `data/tokenize`.
    Packs(&'a [InputArtifact]),
}

/// Reads the training rows and the held-out rows as tokens. `max_tokens` = token limit of a sequence.
///
/// Errors: those of the options with the wired inputs; data, if rows cannot be encoded or a pack is damaged; retryable,
/// if the disk of temporary files is full.
pub fn read_rows(
    config: &SftConfig,
    model: &ModelFolder,
    max_tokens: usize,
    context: &StageContext,
) -> Result<(SftExamples, SftExamples)> {
    refuse(config.problems_with(&context.wired()))?;
    let mask = config.mask_errored_turns;
    let table = match context.many(PORT) {
        [] => RowTable::Trajectories(context.many("trajectories"), "`trajectories`"),
        packs => {
            packs.iter().try_for_each(|artifact| expect_compatible_tokens(artifact, model, mask))?;
            RowTable::Packs(packs)
        }
    };
    let mut train = SftExamples::create(&context.scratch.join("training-rows"))?;
    let mut held = SftExamples::create(&context.scratch.join("held-out-rows"))?;
    let wired = context.many("validation");
    let mut is_held = match wired {
        [] => table.held_out(config, context)?,
        _ => Vec::new(),
    }
    .into_iter();
    table.each_row(model, mask, context, &mut |row| match is_held.next() {
        Some(true) => held.push(row, max_tokens),
        _ => train.push(row, max_tokens),
    })?;
    let validation = RowTable::Trajectories(wired, "`validation`");
    validation.each_row(model, mask, context, &mut |row| held.push(row, max_tokens))?;
    Ok((train, held))
}

impl RowTable<'_> {
    /// Returns for each row whether it is held out; empty if none is.
    fn held_out(self, config: &SftConfig, context: &StageContext) -> Result<Vec<bool>> {
        if config.validation_share <= 0.0 {
            return Ok(Vec::new());
        }
        let mut ranker = TextRanker::create(&context.scratch.join("problem-ids"))?;
        self.each_problem(context, &mut |problem| ranker.push(problem))?;
        let chance = Chance::new(config.seed).child("sft", &[]);
        Ok(held_out_rows(ranker.finish()?, config.validation_share, &chance))
    }
    /// Passes the id of each row's problem to `take`.
    fn each_problem(self, context: &StageContext, take: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        match self {
            Self::Trajectories(artifacts, _) => each_batch(artifacts, &["problem_id"], context, |_, rows| {
                rows.iter().try_for_each(|row: &Trajectory| take(&row.problem_id))
            }),
            Self::Packs(artifacts) => each_batch(artifacts, &["rows", "problems"], context, |path, packs| {
                let mut problems = packs.iter().map(|pack: &TokenPack| pack_problems(pack).at(path.display()));
                problems.try_for_each(|ids| ids?.into_iter().try_for_each(&mut *take))
            }),
        }
    }
    /// Passes the rows as tokens to `take`, in order. Trajectories are encoded on all threads.
    fn each_row(
        self,
        model: &ModelFolder,
        mask_errored_turns: bool,
        context: &StageContext,
        take: &mut dyn FnMut(&TokenizedTrajectory) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Trajectories(artifacts, source) => each_batch(artifacts, &[], context, |_, rows| {
                expect_same_text(model, rows, source)?;
                tokenize(model, rows, mask_errored_turns).into_iter().try_for_each(|row| take(&row?))
            }),
            Self::Packs(artifacts) => each_batch(artifacts, &[], context, |path, packs| {
                let mut rows = packs.iter().map(|pack| unpack(pack).at(path.display()));
                rows.try_for_each(|rows| rows?.iter().try_for_each(&mut *take))
            }),
        }
    }
}

/// Passes the rows of artifacts to `take` in bounded batches, with the path of their file. Without named columns, all
/// are read.
fn each_batch<R: trainyard_tables::TableRow>(
    artifacts: &[InputArtifact],
    columns: &[&str],
    context: &StageContext,
    mut take: impl FnMut(&Path, &[R]) -> Result<()>,
) -> Result<()> {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let columns = (!columns.is_empty()).then_some(columns.as_slice());
    for artifact in artifacts {
        let path = artifact.parquet();
        for rows in read_bounded::<R>(&path, columns)? {
            context.stop_if_cancelled()?;
            take(&path, &rows?)?;
        }
    }
    Ok(())
}

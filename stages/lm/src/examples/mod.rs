//! Converts trajectories to token sequences with a loss mask.
//!
//! Rows with tokens (rollouts) are used unchanged, and rows without tokens (demonstrations) are encoded with the
//! model's template. Only the agent's tokens count in the loss. A turn whose tool call failed stays in the context and
//! may be excluded from the loss. Rows are independent of each other, so all threads encode them, and the results keep
//! the order of the rows.

mod example_file;
mod packs;

pub use example_file::ExampleFile;
pub use packs::{Packer, pack_problems, unpack};

use crate::folder::ModelFolder;
use crate::template::{ConversationTokens, TokenizedConversation};
use rayon::prelude::*;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_tables::{Trajectory, errored_turns, mask_turns};

/// Tokens of one sequence and their loss mask.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Example {
    /// Token ids of the whole sequence.
    pub tokens: Vec<u32>,
    /// Loss mask, as long as `tokens`.
    pub mask: Vec<bool>,
}

impl Example {
    /// Returns the number of tokens whose prediction is learned; a first token is not predicted.
    pub fn loss_tokens(&self) -> usize {
        self.mask.iter().skip(1).filter(|m| **m).count()
    }
    /// Appends the example to the bytes of a file: its token ids (little-endian, 4 bytes each) and its mask (a bit per
    /// token). Errors: bug, if the mask is not as long as the tokens.
    pub fn append_to(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let (tokens, mask) = (&self.tokens, &self.mask);
        if tokens.len() != mask.len() {
            return Err(Error::bug(format!("an example has {} tokens, but a mask of {}", tokens.len(), mask.len())));
        }
        tokens.iter().for_each(|token| bytes.extend_from_slice(&token.to_le_bytes()));
        bytes.extend(mask.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| (byte << 1) | u8::from(*bit))));
        Ok(())
    }
    /// Returns the number of bytes of an example of `tokens` tokens.
    pub fn stored_bytes(tokens: usize) -> usize {
        4 * tokens + tokens.div_ceil(8)
    }
    /// Reads the example from its bytes, which are as many as [`Example::stored_bytes`] says.
    pub fn from_bytes(tokens: usize, bytes: &[u8]) -> Self {
        let (ids, bits) = bytes.split_at(4 * tokens);
        let id = |id: &[u8]| id.try_into().map_or(0, u32::from_le_bytes);
        let mask = (0..tokens).map(|i| (bits[i / 8] >> (i % 8)) & 1 == 1).collect();
        Self { tokens: ids.chunks_exact(4).map(id).collect(), mask }
    }
}

/// Tokens of a trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenizedTrajectory {
    /// Id of the trajectory.
    pub id: String,
    /// Id of its problem.
    pub problem_id: String,
    /// Contexts. A template that rewrites earlier turns gives more than one.
    pub contexts: Vec<Example>,
    /// Turns left out of the loss because their tool call failed.
    pub masked_turns: usize,
}

impl TokenizedTrajectory {
    /// Returns the tokens of the longest context.
    pub fn longest(&self) -> usize {
        self.contexts.iter().map(|context| context.tokens.len()).max().unwrap_or(0)
    }
}

/// Encodes rows on all threads and returns the results in order. With `mask_errored_turns`, turns whose tool call
/// failed are excluded from the loss. The error of a row that cannot be encoded names the row.
pub fn tokenize(
    model: &ModelFolder,
    rows: &[Trajectory],
    mask_errored_turns: bool,
) -> Vec<Result<TokenizedTrajectory>> {
    rows.par_iter().map(|row| tokenize_row(model, row, mask_errored_turns)).collect()
}

fn tokenize_row(model: &ModelFolder, row: &Trajectory, mask_errored_turns: bool) -> Result<TokenizedTrajectory> {
    let mut encoded = encode(model, row).at(format!("trajectory `{}`", row.id))?;
    let masked_turns = if mask_errored_turns && row.tool_errors > 0 {
        mask_turns(&mut encoded.loss_mask, &encoded.turn, &errored_turns(row))
    } else {
        0
    };
    let contexts = encoded.contexts().into_iter().map(|context| Example {
        tokens: encoded.token_ids[context.clone()].to_vec(),
        mask: encoded.loss_mask[context].to_vec(),
    });
    let contexts = contexts.collect();
    Ok(TokenizedTrajectory { id: row.id.clone(), problem_id: row.problem_id.clone(), contexts, masked_turns })
}

fn encode(model: &ModelFolder, row: &Trajectory) -> Result<ConversationTokens> {
    if row.token_ids.is_empty() {
        return TokenizedConversation::encode_row(&model.chat, row);
    }
    Ok(ConversationTokens {
        token_ids: row.token_ids.clone(),
        loss_mask: row.loss_mask.clone(),
        turn: row.turn.clone(),
        prompt_tokens: row.prompt_tokens as usize,
        restarts: row.restarts.iter().map(|at| *at as usize).collect(),
    })
}

/// Checks the tokenizer and template of the tokens in `rows`. Errors: rows with tokens of another tokenizer or
/// template; `what` names the rows in the message. Rows without tokens (demonstrations) are not checked.
pub fn expect_same_text(model: &ModelFolder, rows: &[Trajectory], what: &str) -> Result<()> {
    for row in rows.iter().filter(|r| !r.token_ids.is_empty()) {
        model.expect_digests(&row.tokenizer_digest, &row.template_digest, &format!("row `{}` of {what}", row.id))?;
        if row.loss_mask.len() != row.token_ids.len() || row.turn.len() != row.token_ids.len() {
            return Err(Error::data(format!("row `{}` of {what}: per-token columns differ in length", row.id))
                .help("rebuild the artifact that wrote it"));
        }
    }
    Ok(())
}

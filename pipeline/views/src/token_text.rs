//! Reads the tokens of a row with their text, by the tokenizer that made them.

use crate::find::ResolvedOutput;
use crate::table;
use crate::tokens::{self, TokenPage, TokenValue, page, tokenizer};
use serde_json::{Map, Value};
use tokenizers::Tokenizer;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource};

/// Tokens of the same context that are decoded with a token, since some decoders treat the first one specially.
const BEFORE: usize = 4;
/// Columns that all values need.
const COLUMNS: [&str; 7] =
    ["token_ids", "loss_mask", "turn", "restarts", "step_ends", "prompt_tokens", "tokenizer_digest"];

/// Tokens of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowTokens {
    /// Tokens with one value each.
    pub page: TokenPage,
    /// Whether the tokenizer was found; otherwise tokens have no text.
    pub has_text: bool,
}

/// Reads the tokens of a row with a value, and decodes those in `shown`, given by first position and number.
///
/// Errors: invalid (no such row, a row without the value), data (a damaged table or tokenizer), those of the store.
pub async fn row_tokens(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    row: u64,
    value: Option<TokenValue>,
    (from, count): (usize, usize),
) -> Result<RowTokens> {
    let table = table::open(store, artifact, found).await?;
    let place = format!("{artifact} row {row}");
    let read = tokio::task::spawn_blocking(move || -> Result<(TokenPage, String)> {
        let cells = cells(&table, row, &needed(value))?;
        let page = page(&cells, value).map_err(|error| all_columns_error(&table, row, value, error).at(&place))?;
        let digest = cells.get("tokenizer_digest").and_then(Value::as_str).unwrap_or_default().to_string();
        Ok((page, digest))
    });
    let (mut page, digest) = read.await.map_err(|e| Error::bug(format!("reading tokens ended early: {e}")))??;
    let Some(bytes) = tokenizer(store, found, &digest).await? else { return Ok(RowTokens { page, has_text: false }) };
    let decode = tokio::task::spawn_blocking(move || -> Result<RowTokens> {
        decode(&bytes, &mut page, from, count)?;
        Ok(RowTokens { page, has_text: true })
    });
    decode.await.map_err(|e| Error::bug(format!("decoding tokens ended early: {e}")))?
}

/// Returns the columns that a value needs; without a value, those of the default values.
fn needed(value: Option<TokenValue>) -> Vec<&'static str> {
    COLUMNS.iter().chain(columns_of(value)).copied().collect()
}

/// Returns the error of a value that the row lacks, with all columns about tokens that the row has.
fn all_columns_error(table: &TableSource, row: u64, value: Option<TokenValue>, error: Error) -> Error {
    let all = cells(table, row, &tokens::COLUMNS);
    all.and_then(|all| page(&all, value)).err().unwrap_or(error)
}

/// Reads these cells of a row.
fn cells(table: &TableSource, row: u64, columns: &[&str]) -> Result<Map<String, Value>> {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let part = ReadSlice { offset: row as usize, limit: Some(1), columns: Some(&columns) };
    let mut reader = BatchReader::open_part(table, &part)?;
    let rows = reader.rows();
    let batch = reader.next().transpose()?.filter(|batch| batch.num_rows() > 0);
    match batch.map(|batch| row_as_json(&batch, 0, CellLimits::NONE)) {
        Some(Value::Object(cells)) => Ok(cells),
        _ => {
            Err(Error::invalid(format!("there is no row {row}: the table has {rows} rows"))
                .help("rows are counted from 0"))
        }
    }
}

fn columns_of(value: Option<TokenValue>) -> &'static [&'static str] {
    match value {
        None | Some(TokenValue::Logprob) => &["logprobs"],
        Some(TokenValue::Entropy) => &["entropies"],
        Some(TokenValue::Advantage) => &["advantages"],
        Some(TokenValue::Step) => &["step_labels", "step_scores"],
        Some(TokenValue::Loss) => &[],
    }
}

/// Adds the text to `count` tokens from a position on.
fn decode(tokenizer: &[u8], page: &mut TokenPage, from: usize, count: usize) -> Result<()> {
    let tokenizer = Tokenizer::from_bytes(tokenizer)
        .map_err(|e| Error::data(format!("the tokenizer of the row cannot be read: {e}")))?;
    let ids: Vec<u32> = page.tokens.iter().map(|token| token.token).collect();
    let mut context = 0;
    for (at, token) in page.tokens.iter_mut().enumerate().take(from.saturating_add(count)) {
        if token.context_starts.is_some() {
            context = at;
        }
        if at >= from {
            token.text = piece(&tokenizer, &ids[at.saturating_sub(BEFORE).max(context)..=at]);
        }
    }
    Ok(())
}

/// Returns the text that the last token adds to the tokens before it.
fn piece(tokenizer: &Tokenizer, ids: &[u32]) -> Option<String> {
    let (last, before) = ids.split_last()?;
    tokenizer.id_to_token(*last)?;
    let text = |ids: &[u32]| tokenizer.decode(ids, false).ok();
    let (Some(before), Some(whole)) = (text(before), text(ids)) else { return text(&[*last]) };
    whole.strip_prefix(before.as_str()).map(str::to_string).or_else(|| text(&[*last]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_have_the_text_that_they_add() {
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": {"a": 0, "<b>": 1, "\n": 2}, "unk_token": "a"},
        });
        let row = json!({"token_ids": [0, 1, 9, 2], "loss_mask": [false, true, true, true]});
        let mut page = page(row.as_object().unwrap(), Some(TokenValue::Loss)).unwrap();
        decode(tokenizer.to_string().as_bytes(), &mut page, 1, 2).unwrap();
        let texts: Vec<Option<&str>> = page.tokens.iter().map(|token| token.text.as_deref()).collect();
        assert_eq!(texts, [None, Some("<b>"), None, None], "9 is not in the vocabulary, 0 and 3 are not shown");
        assert!(decode(b"{}", &mut page, 0, 1).unwrap_err().message.contains("cannot be read"));
    }

    #[test]
    fn cells_are_those_of_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let row = trainyard_tables::Trajectory {
            token_ids: vec![1, 2],
            loss_mask: vec![false, true],
            turn: vec![0, 0],
            logprobs: Some(vec![0.0, -1.0]),
            entropies: Some(vec![0.0, 2.0]),
            ..trainyard_tables::Trajectory::default()
        };
        trainyard_tables::write_trajectories(&path, &[row]).unwrap();
        let table = TableSource::from(&path);
        let found = cells(&table, 0, &needed(Some(TokenValue::Entropy))).unwrap();
        assert!(found.contains_key("entropies") && !found.contains_key("logprobs") && !found.contains_key("messages"));
        assert_eq!(page(&cells(&table, 0, &needed(None)).unwrap(), None).unwrap().range, Some((-1.0, -1.0)));
        let lacking =
            page(&cells(&table, 0, &needed(Some(TokenValue::Advantage))).unwrap(), Some(TokenValue::Advantage));
        let error = all_columns_error(&table, 0, Some(TokenValue::Advantage), lacking.unwrap_err());
        assert!(error.help.as_deref().is_some_and(|help| help.contains("logprobs, entropies")), "{error:?}");
        assert!(cells(&table, 7, &needed(None)).unwrap_err().message.contains("has 1 rows"));
    }
}

//! Verifies that a server has the stage's model.
//!
//! The checks cover the model's name, its token ids, its context and the distribution of the returned
//! log-probabilities.

use super::dialect::{Dialect, EndpointTurnOutput, EndpointTurnRequest, LogprobsMode, ServedModelName, ids};
use super::options::Endpoint;
use crate::folder::ModelFolder;
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use trainyard_core::{Error, Result};
use trainyard_http::{HttpClient, JsonRequest};
use trainyard_tables::SamplingParams;

/// Tokens of the vocabulary whose text is compared.
const SAMPLED: u32 = 200;
/// Number of most probable tokens of a probe.
const TOP: usize = 5;

/// Returns the name of the model on the server. Errors: invalid, if the server does not list the named model, or,
/// without a name in the options, does not list exactly one model.
pub fn find_served_model(client: &HttpClient, options: &Endpoint) -> Result<ServedModelName> {
    let response = client.request(JsonRequest::get("/v1/models"))?;
    let listed: Vec<&Value> = response.pointer("/data").and_then(Value::as_array).into_iter().flatten().collect();
    let id = |entry: &Value| entry.get("id").and_then(Value::as_str).map(str::to_string);
    let parent = |entry: &Value| entry.get("parent").and_then(Value::as_str).map(str::to_string);
    let names: Vec<String> = listed.iter().filter_map(|entry| id(entry)).collect();
    let bases: Vec<String> = listed.iter().filter(|e| parent(e).is_none()).filter_map(|entry| id(entry)).collect();
    let known = || format!("it serves {}", if names.is_empty() { "nothing".into() } else { names.join(", ") });
    let name = match (&options.model, bases.as_slice()) {
        (Some(model), _) => model.clone(),
        (None, [only]) => only.clone(),
        (None, _) => {
            return Err(Error::invalid(format!("{} serves {} models, expected exactly one", options.url, bases.len()))
                .help(format!("set `model` to one of them; {}", known())));
        }
    };
    let entry = listed.into_iter().find(|entry| id(entry).as_ref() == Some(&name));
    let entry = entry.ok_or_else(|| {
        Error::invalid(format!("{} does not serve the model `{name}`", options.url))
            .help(format!("correct `model`; {}", known()))
    })?;
    Ok(match parent(entry).filter(|parent| *parent != name) {
        Some(model) => ServedModelName { model, adapter: Some(name) },
        None => ServedModelName { model: name, adapter: None },
    })
}

/// Returns the maximum length of a sequence on the server, or `None` if the server does not report a maximum.
pub fn context(client: &HttpClient, dialect: &dyn Dialect) -> Result<Option<usize>> {
    let (request, pointer) = dialect.context();
    let response = client.request(request)?;
    let number = response.pointer(pointer).and_then(Value::as_u64);
    Ok(number.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0))
}

/// Checks the tokenizer. Errors: invalid, if the server tokenizes a text differently from the model folder's tokenizer.
pub fn expect_tokenizer(
    client: &HttpClient,
    dialect: &dyn Dialect,
    name: &ServedModelName,
    model: &ModelFolder,
) -> Result<()> {
    let tokenizer = model.chat.tokenizer();
    let stops = model.stop_tokens().iter().filter_map(|id| tokenizer.token(*id));
    let texts: Vec<String> = text_of_many_tokens(tokenizer).into_iter().chain(stops).collect();
    let responses = client.request_all(texts.iter().map(|text| dialect.tokenize(name, text)).collect());
    for (text, response) in texts.iter().zip(responses) {
        let response = response.map_err(Error::from).map_err(|e| e.at("comparing the server's tokenizer"))?;
        let list = response.get("tokens").and_then(Value::as_array);
        let theirs = ids(list.map(Vec::as_slice).unwrap_or_default(), "tokens")?;
        let ours = tokenizer.encode(text)?;
        if ours != theirs {
            let position = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            let shown = |ids: &[u32]| ids.get(position).map_or("nothing".to_string(), |id| format!("token {id}"));
            return Err(Error::invalid(format!(
                "the server's tokenizer differs from the model's: token {position} of a test text is {} on the server, \
                 {} here",
                shown(&theirs),
                shown(&ours)
            ))
            .help("serve the stage's input model, or set `model` to its name on the server"));
        }
    }
    Ok(())
}

/// Returns a text of many tokens of the vocabulary, in plain characters, on which all tokenizers of a model agree.
fn text_of_many_tokens(tokenizer: &Tokenizer) -> Option<String> {
    let size = tokenizer.vocabulary_size() as u32;
    let plain = |text: &String| text.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ') && !text.trim().is_empty();
    let chosen = (0..SAMPLED).map(|i| (u64::from(i) * u64::from(size) / u64::from(SAMPLED)) as u32);
    let texts = chosen.filter(|id| !tokenizer.is_added(*id) && tokenizer.token(*id).is_some());
    let text: String = texts.filter_map(|id| tokenizer.decode(&[id]).ok()).filter(plain).collect();
    (!text.is_empty() && tokenizer.encode(&text).is_ok()).then_some(text)
}

/// Requests a token and determines the distribution of the returned log-probabilities.
///
/// Errors: a request that the server rejects; a response without ids or log-probabilities.
pub fn probe(
    client: &HttpClient,
    dialect: &dyn Dialect,
    name: &ServedModelName,
    model: &ModelFolder,
) -> Result<LogprobsMode> {
    let text = text_of_many_tokens(model.chat.tokenizer()).unwrap_or_default();
    let mut tokens = model.chat.tokenizer().encode(&text)?;
    tokens.retain(|token| model.config.expect_tokens([token]).is_ok());
    tokens.truncate((model.config.positions() / 2).min(16));
    if tokens.is_empty() {
        tokens = model.stop_tokens().to_vec();
    }
    let at = |temperature: f64| -> Result<EndpointTurnOutput> {
        let sampling = SamplingParams { temperature, top_p: 1.0, top_k: 0 };
        let request =
            EndpointTurnRequest { model: name, tokens: &tokens, sampling, stop: &[], max_tokens: 1, seed: 1, top: TOP };
        dialect.parse_turn(&client.request(dialect.turn_request(&request))?)
    };
    let cold = at(1.0).map_err(|e| e.at("the first request, of one token"))?;
    if cold.tokens.len() != 1 {
        return Err(Error::data(format!("the server sampled {} tokens, expected 1", cold.tokens.len())));
    }
    match dialect.logprobs_mode() {
        Some(mode) => Ok(mode),
        None => Ok(infer_logprobs_mode(&cold.top, &at(2.0)?.top)),
    }
}

/// Infers the distribution of the log-probabilities from the distance of two tokens, which at temperature 2 is half of
/// the distance at temperature 1 if the server applies the temperature. If no two tokens are conclusive, the numbers
/// count as the model's own, the assumption that permits the fewest options.
fn infer_logprobs_mode(cold: &[(u32, f64)], warm: &[(u32, f64)]) -> LogprobsMode {
    let warm = |token: u32| warm.iter().find(|(id, _)| *id == token).map(|(_, number)| *number);
    let pairs: Vec<(f64, f64)> = cold.iter().filter_map(|(id, number)| Some((*number, warm(*id)?))).collect();
    let widest = pairs.iter().flat_map(|a| pairs.iter().map(move |b| (a.0 - b.0, a.1 - b.1)));
    match widest.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((far, near)) if far > 0.05 && near < 0.75 * far => LogprobsMode::Tempered,
        _ => LogprobsMode::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_temperatures_determine_the_logprobs_mode() {
        let cold = [(7, -0.4), (3, -1.6), (9, -2.4)];
        let raw = [(3, -1.6), (7, -0.4), (1, -9.0)];
        let processed = [(7, -0.9), (3, -1.5), (9, -1.9)];
        assert_eq!(infer_logprobs_mode(&cold, &raw), LogprobsMode::Plain);
        assert_eq!(infer_logprobs_mode(&cold, &processed), LogprobsMode::Tempered);
        assert_eq!(
            infer_logprobs_mode(&cold, &[(1, -0.1), (7, -0.9)]),
            LogprobsMode::Plain,
            "one common token is not conclusive"
        );
        assert_eq!(
            infer_logprobs_mode(&[(7, -1.0), (3, -1.01)], &[(7, -1.0), (3, -1.005)]),
            LogprobsMode::Plain,
            "no distance"
        );
    }
}

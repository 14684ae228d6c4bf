//! Parses options on a command line: a name, or a map as in a workflow file.

use serde_json::Value;
use trainyard_core::{Error, Result};
use trainyard_spec::{Sources, yaml};

/// Parses `text`, the value of an argument called `argument`. Errors: invalid, with the first mistake in the text.
pub fn options(argument: &str, text: &str) -> Result<Value> {
    let help = "write a name, or a map as in a workflow file: `{kind: NAME, option: value}`";
    let mut sources = Sources::default();
    let file = sources.add(argument, None, text);
    let (tree, found) = yaml::read(&sources, file);
    if let Some(first) = found.first() {
        return Err(Error::invalid(sources.line(first)).help(help));
    }
    let tree = tree.ok_or_else(|| Error::invalid(format!("`{argument}` is empty")).help(help))?;
    Ok(tree.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_maps_are_parsed_and_mistakes_reported() {
        assert_eq!(options("--backend", "cpu").unwrap(), json!("cpu"));
        let map = json!({"kind": "candle", "device": "cuda"});
        assert_eq!(options("--backend", "{kind: candle, device: cuda}").unwrap(), map);
        for text in ["{kind: candle", "{kind: a, kind: b}", ""] {
            let error = options("--backend", text).unwrap_err();
            assert!(error.message.contains("--backend") && error.help.is_some(), "{error}");
        }
    }
}

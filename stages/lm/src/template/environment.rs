//! Builds the Jinja environment that Hugging Face's `apply_chat_template` offers, on minijinja.

use super::json::JsonStyle;
use super::limits::{exceeded, fuel};
use super::source_guard::guarded;
use super::value_guard::limit;
use jiff::civil::Date;
use jiff::fmt::strtime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, ErrorKind, State};
use std::str::FromStr;

/// Name of the only template in an environment.
pub const NAME: &str = "chat_template";

/// Variable with the date that `strftime_now` formats, as `2026-01-01`.
pub const TODAY: &str = "_today";

/// Maximum spaces per level of JSON.
const MAX_INDENT: usize = 100;

/// Compiles `source` in an environment with the functions and filters of Hugging Face. The stack must be that of
/// [`super::limits::on_own_stack`].
pub fn environment(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax.clone());
    environment.set_fuel(Some(fuel(0)));
    // With it, an error would print all variables.
    environment.set_debug(false);
    limit(&mut environment);
    environment.add_filter("tojson", tojson);
    // Python cannot iterate over `None`.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |state: &State, format: String| strftime(state, &format));
    // Jinja reads every line break as `\n`.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    environment.add_template_owned(NAME, guarded(&without_generation_tags(&source), &syntax)?)?;
    Ok(environment)
}

/// Replaces the tag `{% generation %}`, which marks the assistant's text for the masks of `transformers`, by a scope,
/// which is its only effect on the text.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start + 2..start + length];
        let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let scope = match word {
            "generation" => tag.replace(word, "with"),
            "endgeneration" => tag.replace(word, "endwith"),
            _ => tag.to_string(),
        };
        out.push_str(&rest[..start + 2]);
        out.push_str(&scope);
        rest = &rest[start + length..];
    }
    out + rest
}

/// Implements the filter `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn tojson(value: &Value, places: Rest<Value>, options: Kwargs) -> Result<Value, Error> {
    let given = |place: usize, name: &str| -> Result<Option<Value>, Error> {
        let value = match places.get(place) {
            Some(value) => Some(value.clone()),
            None => options.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|v| !v.is_none() && !v.is_undefined()))
    };
    let indent = given(1, "indent")?.map(usize::try_from).transpose()?;
    if let Some(width) = indent.filter(|width| *width > MAX_INDENT) {
        return Err(exceeded(&format!("`tojson` has an indent of {width}"), MAX_INDENT));
    }
    let mut style = JsonStyle::new(indent);
    style.ensure_ascii = given(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    if let Some(pair) = given(2, "separators")? {
        style.separators = (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string());
    }
    style.sort_keys = given(3, "sort_keys")?.is_some_and(|v| v.is_true());
    options.assert_all_used()?;
    Ok(Value::from_safe_string(style.text(value)?))
}

/// Formats the date of the options at midnight by a format of C's `strftime`. Errors: a directive that is unknown or
/// requires a time zone.
fn strftime(state: &State, format: &str) -> Result<String, Error> {
    let today = state.lookup(TODAY).and_then(|v| Date::from_str(v.as_str()?).ok()).unwrap_or_default();
    strtime::format(format, today.at(0, 0, 0, 0))
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot write `{format}`: {e}")))
}

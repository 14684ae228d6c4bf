//! Fields of a form for the params of a workflow, and their values in an address or a form.

use crate::error::PageError;
use crate::text;
use axum::http::StatusCode;
use maud::{Markup, html};
use trainyard_spec::ParamDeclaration;

/// Beginning of the names of fields, which keeps params apart from other fields.
const PREFIX: &str = "p.";
/// Param that gets the time of the request if no value is given.
const TICK: &str = "tick";

/// Values by the names of params, in the order of the address or form.
pub type Values = Vec<(String, String)>;

/// Returns the values of params among the fields of an address or a form. Empty fields stand for the default.
pub fn values(fields: &[(String, String)]) -> Values {
    let named = fields.iter().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value)));
    let given = named.filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// Leaves out values that are those of the file: a path in a file is relative to the file, and one that is given is
/// not.
pub fn without_defaults(values: Values, declared: &[ParamDeclaration]) -> Values {
    let is_default = |(name, value): &(String, String)| {
        declared.iter().any(|param| param.name == *name && param.has_default && param.default == *value)
    };
    values.into_iter().filter(|value| !is_default(value)).collect()
}

/// Returns the arguments of `-p` for these values. Errors: bad request (a name that no param can have: `@…` would name
/// a file).
pub fn arguments(values: &[(String, String)]) -> Result<Vec<String>, PageError> {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let argument = |(name, value): &(String, String)| {
        is_name(name).then(|| format!("{name}={value}")).ok_or_else(|| {
            PageError::new(StatusCode::BAD_REQUEST, format!("{name:?} is no name of a param"))
                .help("open the page of the workflow again")
        })
    };
    values.iter().map(argument).collect()
}

/// Renders one field for each param.
pub fn fields(declared: &[ParamDeclaration], values: &[(String, String)]) -> Markup {
    html! {
        @for param in declared {
            @let given = values.iter().find(|(name, _)| *name == param.name).map(|(_, value)| value.as_str());
            div .field {
                @if param.is_artifact {
                    p { strong { (text::visible(&param.name)) } ": takes an artifact (" (param.kind)
                        "), which only a file that embeds this one can pass." }
                } @else {
                    label {
                        span { (text::visible(&param.name)) " " span .muted { "(" (kind(param)) ")" } }
                        (input(param, given))
                    }
                    p .muted { (note(param)) }
                }
            }
        }
    }
}

/// Renders hidden fields with the values.
pub fn hidden(values: &[(String, String)]) -> Markup {
    html! {
        @for (name, value) in values { input type="hidden" name=(format!("{PREFIX}{name}")) value=(value); }
    }
}

fn input(param: &ParamDeclaration, given: Option<&str>) -> Markup {
    let (name, shown) = (format!("{PREFIX}{}", param.name), given.unwrap_or(&param.default));
    let bools = ["true".to_string(), "false".to_string()];
    let choices = if param.kind == "bool" { &bools[..] } else { &param.choices[..] };
    let mode = match param.kind {
        "int" => Some("numeric"),
        "float" => Some("decimal"),
        _ => None,
    };
    let required = !param.has_default && param.name != TICK;
    html! {
        @if choices.is_empty() {
            input type="text" name=(name) value=(shown) required[required] inputmode=[mode] autocomplete="off"
                placeholder=[example(param)];
        } @else {
            select name=(name) required[required] {
                @if !choices.iter().any(|choice| choice == shown) { option value="" { "choose" } }
                @for choice in choices {
                    option value=(choice) selected[choice == shown] { (text::visible(choice)) }
                }
            }
        }
    }
}

fn example(param: &ParamDeclaration) -> Option<&'static str> {
    match param.kind {
        "list" => Some("[a, b]"),
        "map" => Some("{a: 1}"),
        "duration" => Some("90s"),
        "size" => Some("40GiB"),
        _ => None,
    }
}

fn kind(param: &ParamDeclaration) -> String {
    match param.items {
        Some(items) => format!("{} of {items}", param.kind),
        None => param.kind.to_string(),
    }
}

/// Renders the description, the range and the default of a param.
fn note(param: &ParamDeclaration) -> Markup {
    html! {
        @if let Some(description) = &param.description {
            @let (description, _) = text::cut(description.trim_end(), 2_000);
            (description) @if !description.ends_with(['.', '!', '?']) { "." } " "
        }
        @match (param.min, param.max) {
            (Some(min), Some(max)) => { "From " (min) " to " (max) ". " }
            (Some(min), None) => { "At least " (min) ". " }
            (None, Some(max)) => { "At most " (max) ". " }
            (None, None) => {}
        }
        @if param.name == TICK { "Empty: the time of the request." }
        @else if !param.has_default { "Needs a value." }
        @else if param.default.is_empty() { "May stay empty." }
        @else { "Default: " code { (text::cut(&param.default, 200).0) } "." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(name: &str, kind: &'static str, default: Option<&str>) -> ParamDeclaration {
        ParamDeclaration {
            name: name.to_string(),
            kind,
            items: None,
            has_default: default.is_some(),
            default: default.unwrap_or_default().to_string(),
            min: None,
            max: None,
            choices: Vec::new(),
            description: None,
            is_artifact: false,
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn values_are_the_prefixed_fields_that_differ_from_the_file() {
        let found = values(&pairs(&[("p.steps", "3"), ("form_key", "k"), ("p.name", ""), ("p.data", "./rows")]));
        assert_eq!(found, pairs(&[("steps", "3"), ("data", "./rows")]));
        let declared = [param("steps", "int", Some("200")), param("data", "path", Some("./rows"))];
        assert_eq!(without_defaults(found, &declared), pairs(&[("steps", "3")]));
    }

    #[test]
    fn arguments_name_params_and_no_files() {
        assert_eq!(arguments(&pairs(&[("a-b", "x=@y")])).unwrap(), ["a-b=x=@y"]);
        for name in ["@/etc/passwd", "", "a=b", "a b"] {
            assert_eq!(arguments(&pairs(&[(name, "1")])).unwrap_err().status, StatusCode::BAD_REQUEST, "{name}");
        }
    }

    #[test]
    fn fields_fit_the_types() {
        let mut steps = param("steps", "int", Some("200"));
        steps.min = Some(1.0);
        steps.description = Some("<script>x</script>".into());
        let mut mode = param("mode", "string", None);
        mode.choices = vec!["a".into(), "b".into()];
        let declared = [steps, mode, param("fast", "bool", Some("false"))];
        let html = fields(&declared, &pairs(&[("mode", "b")])).into_string();
        for part in [
            "<input type=\"text\" name=\"p.steps\" value=\"200\" inputmode=\"numeric\"",
            "At least 1. ",
            "&lt;script&gt;x&lt;/script&gt;. At least 1. ",
            "<option value=\"b\" selected>b</option>",
            "<select name=\"p.mode\" required>",
            "<option value=\"false\" selected>false</option>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(!html.contains("<script>"), "{html}");
    }
}

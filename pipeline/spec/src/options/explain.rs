//! Describes a schema violation: the value found, the values expected, and the nearest valid name.
//!
//! For an `anyOf` or `oneOf` only the best-fitting branch is reported: first those without a wrong type or word at
//! their top, then the one with the fewest violations. A part is therefore validated as the `kind` that it names.

use super::pointer::escape;
use super::problem::Problem;
use super::view::SchemaView;
use crate::diagnostic::suggest;
use crate::tree::{number_help, shorten};
use crate::vocabulary;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

pub(super) fn collect(error: &ValidationError<'_>, root: &SchemaView<'_>, problems: &mut Vec<Problem>) {
    let pointer = error.instance_path().to_string();
    let view = at(root, &pointer);
    let problem = |code: &'static str, message: String| Problem {
        code,
        pointer: pointer.clone(),
        at_key: false,
        by_children: false,
        message,
        help: None,
    };
    let found = shown(error.instance());
    problems.push(match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            for key in unexpected {
                problems.push(Problem {
                    code: "unknown-option",
                    pointer: format!("{pointer}/{}", escape(key)),
                    at_key: true,
                    by_children: false,
                    message: if pointer.is_empty() {
                        format!("there is no option `{key}`")
                    } else {
                        "there is no option {}".into()
                    },
                    help: unknown_help(key, &view, error.instance()),
                });
            }
            return;
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            return best_branch(context, error, root, problems);
        }
        Kind::OneOfMultipleValid { .. } => Problem {
            by_children: true,
            ..problem("wrong-value", format!("{{}} fits several forms at once, found {found}"))
        },
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            Problem { at_key: true, ..problem("missing-option", format!("{{}} lacks `{name}`")) }
        }
        Kind::Type { kind } => {
            let expected = wanted_types(kind);
            let text = if error.instance().is_string() { "the text " } else { "" };
            let mut p = problem("wrong-type", format!("{{}} must be {expected}, found {text}{found}"));
            if expected.contains("true or false")
                && error.instance().as_str().is_some_and(|s| {
                    matches!(s.to_lowercase().as_str(), "yes" | "no" | "on" | "off" | "true" | "false")
                })
            {
                p.help = Some("YAML 1.2 knows `true` and `false` only, in small letters and without quotes".into());
            }
            if let Some(text) = error.instance().as_str() {
                p.help = p.help.or_else(|| number_help(&expected, text));
            }
            p
        }
        Kind::Enum { .. } | Kind::Constant { .. } => {
            let words = view.words();
            let mut p = problem("wrong-value", format!("{{}} cannot be {found}"));
            p.help = error
                .instance()
                .as_str()
                .and_then(|w| suggest(w, words.iter().copied()))
                .or_else(|| (!words.is_empty()).then(|| format!("valid here: {}", words.join(", "))));
            p
        }
        Kind::Minimum { limit } => problem("out-of-range", format!("{{}} is {found}, but must be at least {limit}")),
        Kind::Maximum { limit } => problem("out-of-range", format!("{{}} is {found}, but must be at most {limit}")),
        Kind::ExclusiveMinimum { limit } => {
            problem("out-of-range", format!("{{}} is {found}, but must be more than {limit}"))
        }
        Kind::ExclusiveMaximum { limit } => {
            problem("out-of-range", format!("{{}} is {found}, but must be less than {limit}"))
        }
        Kind::MinItems { limit } => problem("out-of-range", format!("{{}} must have at least {limit} items")),
        Kind::MaxItems { limit } => problem("out-of-range", format!("{{}} must have at most {limit} items")),
        Kind::FalseSchema => problem("wrong-value", format!("{{}} cannot be set here, found {found}")),
        Kind::Not { .. } => Problem { by_children: true, ..problem("wrong-value", format!("{{}} cannot be {found}")) },
        _ => Problem { by_children: true, ..problem("wrong-value", format!("{{}}: {error}")) },
    });
}

/// Returns the help for an option that is unknown at its position: the options of the part that the value names. An
/// option of another part at that position is no typo.
fn unknown_help(key: &str, view: &SchemaView<'_>, instance: &Value) -> Option<String> {
    let all = view.names();
    let Some(kind) = instance.get("kind").and_then(Value::as_str) else { return vocabulary::option(key, &words(&all)) };
    let own = view.names_of_kind(kind);
    if own.is_empty() {
        return vocabulary::option(key, &words(&all));
    }
    let own: Vec<&str> = words(&own).into_iter().filter(|name| *name != "kind").collect();
    let foreign = all.iter().any(|name| name == key);
    match (foreign, own.as_slice()) {
        (true, []) => Some(format!("`{kind}` has no options, other kinds have this one")),
        (true, own) => Some(format!("`{kind}` has no such option, other kinds have; valid here: {}", own.join(", "))),
        (false, []) => Some(format!("`{kind}` has no options")),
        (false, own) => vocabulary::option(key, own),
    }
}

fn words(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn best_branch(
    context: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    root: &SchemaView<'_>,
    problems: &mut Vec<Problem>,
) {
    let pointer = error.instance_path().to_string();
    let depth = |e: &ValidationError<'_>| e.instance_path().to_string();
    // An incorrect type at the top, or an incorrect word at its `kind`, means that another branch was intended.
    let foreign = |e: &ValidationError<'_>| match e.kind() {
        Kind::Type { .. } => depth(e) == pointer,
        Kind::Constant { .. } | Kind::Enum { .. } => depth(e) == pointer || depth(e) == format!("{pointer}/kind"),
        Kind::FalseSchema => true,
        _ => false,
    };
    let score = |branch: &Vec<ValidationError<'static>>| (branch.iter().any(foreign), branch.len());
    let best = context.iter().filter(|b| !b.is_empty()).min_by_key(|b| score(b));
    match best {
        Some(branch) if !score(branch).0 => branch.iter().for_each(|e| collect(e, root, problems)),
        _ => no_branch_fits(context, error, &pointer, root, problems),
    }
}

/// Describes the allowed types or words when no branch fits.
fn no_branch_fits(
    context: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    pointer: &str,
    root: &SchemaView<'_>,
    problems: &mut Vec<Problem>,
) {
    let at_kind = format!("{pointer}/kind");
    let wrong_kind = context.iter().flatten().find(|e| e.instance_path().to_string() == at_kind);
    if let Some(wrong) = wrong_kind {
        return collect(wrong, root, problems);
    }
    let mut expected: Vec<String> = Vec::new();
    for e in context.iter().flatten() {
        if let Kind::Type { kind } = e.kind() {
            let name = wanted_types(kind);
            if !expected.contains(&name) && name != "null" {
                expected.push(name);
            }
        }
    }
    let view = at(root, pointer);
    let (words, names) = (view.words(), view.names());
    let found = shown(error.instance());
    // The maps of parts are named by a word, so these words are the whole choice.
    let or_map = match names.as_slice() {
        [] => String::new(),
        names if names.iter().any(|name| name == "kind") => String::new(),
        names => format!(", or a map with `{}`", names.join("`, `")),
    };
    let help = error.instance().as_str().and_then(|w| suggest(w, words.iter().copied()));
    let help = help.map(|help| help + &or_map);
    let message = if words.is_empty() || !error.instance().is_string() {
        expected.extend((!words.is_empty()).then(|| format!("one of {}", words.join(", "))));
        format!(
            "{{}} must be {}, found {found}",
            if expected.is_empty() { "something else".into() } else { expected.join(" or ") }
        )
    } else {
        format!("{{}} cannot be {found}")
    };
    let code = if error.instance().is_string() && !words.is_empty() { "wrong-value" } else { "wrong-type" };
    problems.push(Problem { code, pointer: pointer.to_string(), at_key: false, by_children: true, message, help });
}

fn at<'s>(root: &SchemaView<'s>, pointer: &str) -> SchemaView<'s> {
    pointer.split('/').skip(1).fold(root.clone(), |view, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(index) if view.names().is_empty() => view.item(index),
            _ => view.property(&part),
        }
    })
}

fn wanted_types(kind: &TypeKind) -> String {
    let one = |name: &str| {
        match name {
            "string" => "text",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "true or false",
            "array" => "a list",
            "object" => "a map",
            other => other,
        }
        .to_string()
    };
    let names: Vec<String> = match kind {
        TypeKind::Single(name) => vec![one(&name.to_string())],
        TypeKind::Multiple(names) => {
            names.iter().map(|n| n.to_string()).filter(|n| n != "null").map(|n| one(&n)).collect()
        }
    };
    names.join(" or ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a map".into(),
        other => format!("`{}`", shorten(&other.as_str().map_or_else(|| other.to_string(), str::to_string))),
    }
}

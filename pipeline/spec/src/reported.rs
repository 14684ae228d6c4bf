//! Whether a stage reports a metric of a given name and, if not, which name was probably meant.

use crate::diagnostic::{nearest, suggest};
use crate::read::Trouble;
use trainyard_core::{Declared, Metric, Of};

/// Checks that a metric of this name is reported; the error states what is wrong and whether `of` is the cause.
pub(crate) fn judge(declared: &Declared, who: &str, name: &str, of: Option<Of>) -> Result<(), (Trouble, bool)> {
    let unknown =
        |message: String, help: Option<String>| Err((Trouble::new("unknown-metric", message).help(help), false));
    match (of, declared.metric(name), declared.comparison(name)) {
        (None, Some(_), _) | (Some(_), _, Some(_)) => Ok(()),
        (None, None, Some(_)) => {
            let message = format!("`{name}` is a comparison in {who}: say which number of it");
            let help = format!("add `of: difference`, or another of: {}", Of::NAMES.join(", "));
            Err((Trouble::new("missing-of", message).help(Some(help)), false))
        }
        _ if declared.open => Ok(()),
        (Some(of), Some(_), None) => {
            let message = format!("`{name}` of {who} is one number, so it has no `{}`", of.name());
            Err((Trouble::new("no-comparison", message).help(Some("leave out `of`".into())), true))
        }
        (Some(_), None, None) if declared.comparisons.is_empty() => {
            let message = format!("{who} compares nothing, so its metrics have no `of`");
            Err((Trouble::new("no-comparison", message).help(Some("leave out `of`".into())), true))
        }
        (Some(_), None, None) => {
            let rows = declared.comparisons.iter();
            let help = renamed(name, rows.clone()).or_else(|| suggest(name, rows.map(|m| m.name.as_str())));
            unknown(format!("{who} does not compare `{name}`"), help)
        }
        (None, None, None) => {
            let help = glued(declared, name).or_else(|| renamed(name, declared.metrics.iter())).or_else(|| {
                suggest(name, declared.metrics.iter().chain(&declared.comparisons).map(|m| m.name.as_str()))
            });
            unknown(format!("{who} reports no metric `{name}`"), help)
        }
    }
}

/// Maps a name from before metrics were prefixed with the names of their parts.
pub(crate) fn renamed<'m>(name: &str, mut metrics: impl Iterator<Item = &'m Metric>) -> Option<String> {
    metrics.find(|m| m.former.as_deref() == Some(name)).map(|m| format!("it is called `{}` now", m.name))
}

/// Maps a name from before comparisons had rows: `difference_low_tokens` was `{metric: tokens, of: low}`.
fn glued(declared: &Declared, name: &str) -> Option<String> {
    const PREFIXES: [(&str, Of); 6] = [
        ("difference_low", Of::Low),
        ("difference_high", Of::High),
        ("difference", Of::Difference),
        ("problems", Of::N),
        ("a", Of::A),
        ("b", Of::B),
    ];
    let form = |row: &Metric, of: Of| format!("write `{{metric: {}, of: {}, …}}`", row.name, of.name());
    PREFIXES.into_iter().find_map(|(prefix, of)| {
        let rest = name.strip_prefix(prefix)?;
        if rest.is_empty() {
            return declared.comparisons.first().map(|row| form(row, of));
        }
        let rest = rest.strip_prefix('_')?;
        let flat = |name: &str| name.replace(['.', '-'], "_");
        let same = |row: &&Metric| flat(&row.name) == rest || row.former.as_deref() == Some(rest);
        let exact = declared.comparisons.iter().find(same);
        let near = || nearest(rest, declared.comparisons.iter().map(|m| m.name.as_str()));
        exact.or_else(|| near().and_then(|name| declared.comparison(name))).map(|row| form(row, of))
    })
}

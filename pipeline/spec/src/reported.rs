//! Determines whether a stage reports a metric of a given name and, if it does not, which name the user probably meant.

use crate::diagnostic::{nearest, suggest};
use crate::read::ResolveError;
use trainyard_core::{ComparisonField, DeclaredMetrics, MetricInfo};

/// Checks that a metric of this name is reported. The error comes with whether `of` is its cause.
pub(crate) fn judge(
    declared: &DeclaredMetrics,
    reporter: &str,
    name: &str,
    of: Option<ComparisonField>,
) -> Result<(), (ResolveError, bool)> {
    let unknown =
        |message: String, help: Option<String>| Err((ResolveError::new("unknown-metric", message).help(help), false));
    match (of, declared.metric(name), declared.comparison(name)) {
        (None, Some(_), _) | (Some(_), _, Some(_)) => Ok(()),
        (None, None, Some(_)) => {
            let message = format!("`{name}` is a comparison in {reporter}: say which number of it");
            let help = format!("add `of: difference`, or another of: {}", ComparisonField::NAMES.join(", "));
            Err((ResolveError::new("missing-of", message).help(Some(help)), false))
        }
        _ if declared.open => Ok(()),
        (Some(of), Some(_), None) => {
            let message = format!("`{name}` of {reporter} is one number, so it has no `{}`", of.name());
            Err((ResolveError::new("no-comparison", message).help(Some("leave out `of`".into())), true))
        }
        (Some(_), None, None) if declared.comparisons.is_empty() => {
            let message = format!("{reporter} compares nothing, so its metrics have no `of`");
            Err((ResolveError::new("no-comparison", message).help(Some("leave out `of`".into())), true))
        }
        (Some(_), None, None) => {
            let rows = declared.comparisons.iter();
            let help = renamed(name, rows.clone()).or_else(|| suggest(name, rows.map(|m| m.name.as_str())));
            unknown(format!("{reporter} does not compare `{name}`"), help)
        }
        (None, None, None) => {
            let help = glued(declared, name).or_else(|| renamed(name, declared.metrics.iter())).or_else(|| {
                suggest(name, declared.metrics.iter().chain(&declared.comparisons).map(|m| m.name.as_str()))
            });
            unknown(format!("{reporter} reports no metric `{name}`"), help)
        }
    }
}

/// Maps a former name, from before metrics were prefixed with the names of their parts, to the present one.
pub(crate) fn renamed<'m>(name: &str, mut metrics: impl Iterator<Item = &'m MetricInfo>) -> Option<String> {
    metrics.find(|m| m.former.as_deref() == Some(name)).map(|m| format!("it is called `{}` now", m.name))
}

/// Maps a former name, from before comparisons had rows, to the present form: `difference_low_tokens` was `{metric:
/// tokens, of: low}`.
fn glued(declared: &DeclaredMetrics, name: &str) -> Option<String> {
    const PREFIXES: [(&str, ComparisonField); 6] = [
        ("difference_low", ComparisonField::Low),
        ("difference_high", ComparisonField::High),
        ("difference", ComparisonField::Difference),
        ("problems", ComparisonField::N),
        ("a", ComparisonField::A),
        ("b", ComparisonField::B),
    ];
    let form =
        |row: &MetricInfo, of: ComparisonField| format!("write `{{metric: {}, of: {}, …}}`", row.name, of.name());
    PREFIXES.into_iter().find_map(|(prefix, of)| {
        let rest = name.strip_prefix(prefix)?;
        if rest.is_empty() {
            return declared.comparisons.first().map(|row| form(row, of));
        }
        let rest = rest.strip_prefix('_')?;
        let flat = |name: &str| name.replace(['.', '-'], "_");
        let same = |row: &&MetricInfo| flat(&row.name) == rest || row.former.as_deref() == Some(rest);
        let exact = declared.comparisons.iter().find(same);
        let near = || nearest(rest, declared.comparisons.iter().map(|m| m.name.as_str()));
        exact.or_else(|| near().and_then(|name| declared.comparison(name))).map(|row| form(row, of))
    })
}

//! Parameters of the address of a sweep.

use crate::links::{Links, query};
use serde::Deserialize;

/// Parameters of the address.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Sweeping {
    /// Fan-out.
    pub stage: Option<String>,
    /// Metrics that are columns, separated by commas.
    pub metrics: Option<String>,
    /// Axis whose instances are pooled.
    pub pool: Option<String>,
    /// Axis or metric by which rows are sorted.
    pub sort: Option<String>,
    /// Row with which the others are compared.
    pub baseline: Option<String>,
    /// Learning curve that is drawn.
    pub curve: Option<String>,
}

/// Data that the parts of the page share.
pub struct Shown<'a> {
    /// Addresses of other pages.
    pub links: &'a Links,
    /// Run id.
    pub run: &'a str,
    /// Parameters of the address.
    pub chosen: &'a Sweeping,
}

impl Shown<'_> {
    /// Returns the address of this page with one parameter changed.
    pub fn with(&self, name: &str, value: &str) -> String {
        let parameters: Vec<(&str, &str)> = self.parameters_without(name).chain([(name, value)]).collect();
        format!("{}{}", self.links.to(&["runs", self.run, "sweep"]), query(&parameters))
    }
    /// Returns the given parameters of the address but one.
    pub fn parameters_without<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
        let Sweeping { stage, metrics, pool, sort, baseline, curve } = self.chosen;
        let all = [
            ("stage", stage),
            ("metrics", metrics),
            ("pool", pool),
            ("sort", sort),
            ("baseline", baseline),
            ("curve", curve),
        ];
        let kept = all.into_iter().filter(move |(known, _)| *known != name);
        kept.filter_map(|(known, value)| Some((known, value.as_deref()?)))
    }
}

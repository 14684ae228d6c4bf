//! Records learning curves: the measurements of a stage so far, stored in its checkpoints.
//!
//! A resumed stage must end with the same report as one that was never killed, so points are part of the checkpointed
//! state. Names are sorted. A point that is not finite stops the stage with an error that names the step.

use crate::StageContext;
use crate::report::{Curve, StageReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// Named series of (step, value).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LearningCurves(BTreeMap<String, Vec<(u64, f64)>>);

impl LearningCurves {
    /// Adds a point and reports it. Errors: data, if the value is not finite.
    pub fn point(&mut self, context: &StageContext, name: &str, step: u64, value: f64) -> Result<()> {
        self.add(name, step, value)?;
        context.curve(name, step, value);
        Ok(())
    }
    /// Adds a point without reporting it. Errors: as in [`LearningCurves::point`].
    pub fn add(&mut self, name: &str, step: u64, value: f64) -> Result<()> {
        finite(value, name, step)?;
        self.0.entry(name.to_string()).or_default().push((step, value));
        Ok(())
    }
    /// Returns the points `(step, value)` of a series in insertion order; empty for an unknown series.
    pub fn series(&self, name: &str) -> &[(u64, f64)] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
    /// Returns the newest value of a series; `None` for a series without points.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.series(name).last().map(|p| p.1)
    }
    /// Returns the mean of the last `n` points; `None` for a series without points.
    pub fn recent(&self, name: &str, n: usize) -> Option<f64> {
        let points = self.series(name);
        let tail = &points[points.len().saturating_sub(n)..];
        if tail.is_empty() { None } else { Some(tail.iter().map(|p| p.1).sum::<f64>() / tail.len() as f64) }
    }
    /// Returns the names that begin with `prefix`, sorted.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().map(String::as_str).filter(move |n| n.starts_with(prefix))
    }
    /// Adds one chart of several series to the report, given as (label, name).
    pub fn add_chart(&self, report: &mut StageReport, title: &str, y: &str, series: &[(&str, &str)]) {
        let curve = series.iter().fold(Curve::new(title, "step", y), |curve, (label, name)| {
            curve.with(*label, self.series(name).iter().map(|&(x, v)| (x as f64, v)))
        });
        report.curve(curve);
    }
}

/// Returns a finite value. Errors: data, naming the step, if `value` is not finite.
pub fn finite(value: f64, name: &str, step: u64) -> Result<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Error::data(format!("{name} is {value} at step {step}"))
        .help("lower the learning rate or the clip norm; weights of earlier checkpoints are intact"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_round_trip_and_nan_is_rejected() {
        let mut curves = LearningCurves::default();
        for (step, value) in [(0, 0.1 + 0.2), (1, 1.0 / 3.0), (2, 1e-308)] {
            curves.add("loss", step, value).unwrap();
        }
        let copy: LearningCurves = serde_json::from_str(&serde_json::to_string(&curves).unwrap()).unwrap();
        assert_eq!(copy, curves);
        assert_eq!(curves.recent("loss", 2), Some((1.0 / 3.0 + 1e-308) / 2.0));
        let e = curves.add("loss", 3, f64::NAN).unwrap_err();
        assert_eq!(e.kind, trainyard_core::ErrorKind::Data);
        assert!(e.message.contains("step 3"));
    }
}

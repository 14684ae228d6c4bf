//! Shows the instances of a fan-out as a table: values on axes, metrics, means over seeds, paired differences, curves.
//!
//! Instances that differ only in the pooled axis (`seed` by default) are one row, with mean, spread and number. Rows
//! are compared with a baseline row by pairing the instances of one value on the pooled axis.

mod axes;
mod curves;
mod rows;
mod table;

pub use axes::{AxisText, axes_of};
pub use curves::{InstanceCurve, SweepCurves, curves};
pub use rows::{SweepCell, SweepDifference, SweepRow};
pub use table::{NO_POOL, SweepQuery, SweepView, show};

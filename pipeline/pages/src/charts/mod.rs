//! Charts as SVG, drawn on the server. Lines differ in dashes as well as in color.

mod intervals;
mod lines;
mod scale;
mod smooth;

pub use intervals::{IntervalBar, interval_bars, signed};
pub use lines::{LineChart, PointLink, Series, legend};
pub use scale::ticks;
pub use smooth::{smoothed, spread, thinned};

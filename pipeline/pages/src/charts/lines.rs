//! Line charts of learning curves.

use super::scale::Scale;
use super::smooth::{smoothed, thinned};
use crate::text::number;
use maud::{Markup, html};
use std::fmt::Write as _;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 28.0;
/// Dashes of the lines, in turn.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "8 3 2 3"];
/// Colors in the style sheet.
const COLORS: usize = 8;
/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points: x and y, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// Point of a line that leads to another page.
#[derive(Debug, Clone, PartialEq)]
pub struct PointLink {
    /// Place on the x axis.
    pub x: f64,
    /// Place on the y axis.
    pub y: f64,
    /// Address of the page.
    pub address: String,
    /// Text of the link.
    pub label: String,
}

/// Line chart of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Title, which screen readers read.
    pub title: String,
    /// Lines.
    pub series: Vec<Series>,
    /// Weight of the past in an exponential mean, from 0 (none) to below 1; the unsmoothed line is pale below it.
    pub smoothing: f64,
    /// Whether the y axis is logarithmic.
    pub is_log: bool,
}

impl LineChart {
    /// Draws the chart and its legend.
    pub fn draw(&self) -> Markup {
        self.draw_with_links(&[])
    }
    /// Draws the chart, its legend, and points that lead to other pages.
    pub fn draw_with_links(&self, links: &[PointLink]) -> Markup {
        html! {
            (self.draw_without_legend(links))
            @if self.series.len() > 1 { (legend(self.series.iter().map(|series| series.name.as_str()))) }
        }
    }
    /// Draws the chart and its links for a page that has one [`legend`] for several charts.
    pub fn draw_without_legend(&self, links: &[PointLink]) -> Markup {
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|(x, y)| is_finite(*x, *y));
        if points().next().is_none() {
            return html! { p .empty { "no points yet" } };
        }
        let xs = Scale::linear(range(points().map(|(x, _)| *x)), (LEFT, WIDTH - RIGHT));
        let heights = (HEIGHT - BOTTOM, TOP);
        let shown = range(points().map(|(_, y)| *y).filter(|y| !self.is_log || *y > 0.0));
        if shown.0 > shown.1 {
            return html! { p .empty { "no value above 0, as a logarithmic axis needs" } };
        }
        let ys = if self.is_log { Scale::log(shown, heights) } else { Scale::linear(shown, heights) };
        html! {
            figure .chart {
                figcaption { (crate::text::visible(&self.title)) }
                @let role = if links.is_empty() { "img" } else { "group" };
                svg .chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role=(role) aria-label=(self.summary()) {
                    (axes(&xs, &ys, points().all(|(x, _)| is_whole(*x))))
                    @for (number, series) in self.series.iter().enumerate() {
                        (self.line(number, series, &xs, &ys))
                    }
                    @for link in links.iter().filter(|link| is_finite(link.x, link.y)) {
                        a href=(link.address) {
                            title { (crate::text::visible(&link.label)) }
                            circle .point cx=(place(xs.place(link.x))) cy=(place(ys.place(link.y))) r="4" {}
                        }
                    }
                }
            }
        }
    }
    /// Returns the chart in words.
    fn summary(&self) -> String {
        let mut text = self.title.clone();
        for series in &self.series {
            if let (Some((from, first)), Some((to, last))) = (series.points.first(), series.points.last()) {
                let _ = write!(
                    text,
                    "; {} from {} at {} to {} at {}",
                    series.name,
                    number(*first),
                    number(*from),
                    number(*last),
                    number(*to)
                );
            }
        }
        text
    }
    fn line(&self, number: usize, series: &Series, xs: &Scale, ys: &Scale) -> Markup {
        let points = thinned(&series.points);
        if points.is_empty() {
            return html! {};
        }
        let color = format!("c{}", number % COLORS);
        let dash = DASHES[number % DASHES.len()];
        let dash = (!dash.is_empty()).then_some(dash);
        html! {
            @if self.smoothing > 0.0 {
                path .line .raw .(color) d=(path(&points, xs, ys)) {}
            }
            path .line .(color) stroke-dasharray=[dash] d=(path(&smoothed(&points, self.smoothing), xs, ys)) {}
            @if let [(x, y)] = points.as_slice() {
                circle .(color) cx=(place(xs.place(*x))) cy=(place(ys.place(*y))) r="2.5" {}
            }
        }
    }
}

/// Draws both axes. `is_counted`: the x axis has whole numbers, such as steps, and no ticks between them.
fn axes(xs: &Scale, ys: &Scale, is_counted: bool) -> Markup {
    html! {
        @for value in ys.ticks(5) {
            @let y = place(ys.place(value));
            path .axis d=(format!("M{LEFT} {y}H{}", WIDTH - RIGHT)) {}
            text .tick x=(LEFT - 6.0) y=(y) dy="4" text-anchor="end" { (number(value)) }
        }
        @for value in xs.ticks(6).into_iter().filter(|value| !is_counted || is_whole(*value)) {
            text .tick x=(place(xs.place(value))) y=(HEIGHT - 8.0) text-anchor="middle" { (number(value)) }
        }
    }
}

/// Draws the legend of lines with these names.
pub fn legend<'a>(names: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        ul .legend {
            @for (number, name) in names.enumerate() {
                @let dash = DASHES[number % DASHES.len()];
                li {
                    svg viewBox="0 0 28 10" aria-hidden="true" {
                        path .line .(format!("c{}", number % COLORS)) d="M0 5H28"
                            stroke-dasharray=[(!dash.is_empty()).then_some(dash)] {}
                    }
                    (crate::text::visible(name))
                }
            }
        }
    }
}

/// Returns whether a value is a whole number, but for a rounding error.
fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-9
}

fn is_finite(x: f64, y: f64) -> bool {
    x.is_finite() && y.is_finite()
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

fn path(points: &[(f64, f64)], xs: &Scale, ys: &Scale) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (number, (x, y)) in points.iter().enumerate() {
        let command = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{} {}", place(xs.place(*x)), place(ys.place(*y)));
    }
    path
}

/// Formats a place with one decimal.
fn place(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: &[&[(f64, f64)]]) -> LineChart {
        let series = series.iter().enumerate();
        let series = series.map(|(n, points)| Series { name: format!("s{n}"), points: points.to_vec() }).collect();
        LineChart { title: "loss".to_string(), series, smoothing: 0.0, is_log: false }
    }

    #[test]
    fn every_series_is_a_line() {
        let drawn = chart(&[&[(0.0, 1.0), (10.0, 2.0)], &[(0.0, 3.0), (10.0, 3.0)]]).draw().into_string();
        assert_eq!(drawn.matches("class=\"line c").count(), 4, "two lines and two in the legend: {drawn}");
        assert!(drawn.contains("M62.0 232.0L550.0 121.0"), "{drawn}");
        assert!(drawn.contains("s0 from 1 at 0 to 2 at 10"), "{drawn}");
    }

    #[test]
    fn steps_have_whole_ticks() {
        let ticks = |points: &[(f64, f64)]| {
            let drawn = chart(&[points]).draw().into_string();
            let texts = drawn.split("text-anchor=\"middle\">").skip(1);
            texts.map(|text| text.split('<').next().unwrap_or_default().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ticks(&[(0.0, 1.0), (2.0, 2.0)]), ["0", "1", "2"]);
        assert_eq!(ticks(&[(0.0, 1.0), (0.5, 1.0), (2.0, 2.0)]), ["0", "0.5", "1", "1.5", "2"]);
        assert_eq!(ticks(&[(7.0, 1.0)]), ["7"]);
    }

    #[test]
    fn series_without_points_keep_the_colors_of_the_others() {
        let chart = chart(&[&[], &[(0.0, 1.0), (1.0, 2.0)]]);
        let drawn = chart.draw_without_legend(&[]).into_string();
        assert!(drawn.contains("class=\"line c1\"") && !drawn.contains("class=\"line c0\""), "{drawn}");
        assert!(!drawn.contains("<ul"), "{drawn}");
        let legend = legend(["a", "b<"].into_iter()).into_string();
        assert!(legend.contains("class=\"line c1\"") && legend.contains("b&lt;"), "{legend}");
    }

    #[test]
    fn charts_without_finite_points_say_so() {
        assert!(chart(&[&[(1.0, f64::NAN)]]).draw().into_string().contains("no points yet"));
        assert!(chart(&[]).draw().into_string().contains("no points yet"));
        assert!(chart(&[&[(1.0, 2.0)]]).draw().into_string().contains("<circle"));
        let negative = LineChart { is_log: true, ..chart(&[&[(0.0, -1.0), (1.0, 0.0)]]) };
        assert!(negative.draw().into_string().contains("no value above 0"));
    }

    #[test]
    fn linked_points_lie_on_the_line() {
        let link = |x: f64| PointLink { x, y: 1.5, address: format!("rollouts?step={x}"), label: format!("step {x}") };
        let chart = chart(&[&[(0.0, 1.0), (10.0, 2.0)]]);
        let drawn = chart.draw_with_links(&[link(5.0), link(f64::NAN)]).into_string();
        assert_eq!(drawn.matches("<a ").count(), 1, "{drawn}");
        assert!(drawn.contains("href=\"rollouts?step=5\"") && drawn.contains("<title>step 5</title>"), "{drawn}");
        assert!(drawn.contains("cx=\"306.0\" cy=\"121.0\""), "{drawn}");
    }
}

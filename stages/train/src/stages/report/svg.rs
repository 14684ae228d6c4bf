//! Draws learning curves as SVG: axes with ticks, grid, legend, a title, and a description for screen readers.
//!
//! Colors are CSS classes, so one drawing works on light and dark pages; a stand-alone file contains the style sheet.
//! Lines with too many points are averaged in equal pieces. Every series has at least one point (see
//! [`StageReport::curve`]).
//!
//! [`StageReport::curve`]: trainyard_api::StageReport::curve

use super::numbers::tick;
use super::scale::AxisScale;
use trainyard_api::report::{Curve, Series};

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
const LEGEND_ROW: f64 = 20.0;
/// Maximum number of points drawn per line.
const MOST_POINTS: usize = 300;
/// Maximum number of points of a line that shows them as dots.
const DOTS: usize = 40;
/// Number of distinct colors; later series repeat them with dashes.
const COLORS: usize = 8;

/// Style sheet of drawings, for the page and for stand-alone files.
pub const STYLE: &str = include_str!("curve.css");

/// Returns the `<svg>` element for a page that contains [`STYLE`]. `id` must be unique in the page.
pub fn curve(curve: &Curve, id: &str) -> String {
    draw(curve, id, "")
}

/// Returns a stand-alone SVG file.
pub fn standalone(curve: &Curve) -> String {
    let style =
        format!("<style>{STYLE} svg.curve{{background:var(--surface);font-family:system-ui,sans-serif}}</style>");
    draw(curve, "curve", &style)
}

fn draw(curve: &Curve, id: &str, style: &str) -> String {
    let legend = Legend::new(&curve.series);
    let height = HEIGHT + legend.height;
    let plot = Plot::new(curve, TOP + legend.height);
    let mut out = format!(
        "<svg class=\"curve\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">{style}\
         <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>",
        escape(&curve.title),
        escape(&describe(curve))
    );
    out.push_str(&legend.svg);
    plot.axes(curve, &mut out);
    for (i, series) in curve.series.iter().enumerate() {
        plot.line(series, i, &mut out);
    }
    out.push_str("</svg>");
    out
}

/// Describes the drawing for screen readers.
fn describe(curve: &Curve) -> String {
    let lines: Vec<String> = curve
        .series
        .iter()
        .filter_map(|s| Some((s, s.points.first()?, s.points.last()?)))
        .map(|(s, first, last)| {
            format!(
                "{} goes from {} to {} at {} {}",
                s.name,
                super::numbers::number(first[1]),
                super::numbers::number(last[1]),
                curve.x,
                super::numbers::number(last[0])
            )
        })
        .collect();
    format!("Line chart over {}. {}.", curve.x, lines.join("; "))
}

struct Legend {
    svg: String,
    height: f64,
}

impl Legend {
    /// Arranges entries in rows; a single series needs no legend.
    fn new(series: &[Series]) -> Self {
        if series.len() < 2 {
            return Self { svg: String::new(), height: 0.0 };
        }
        let (mut x, mut y, mut svg) = (LEFT, TOP + 8.0, String::from("<g class=\"legend\">"));
        for (i, s) in series.iter().enumerate() {
            let width = 40.0 + 6.6 * s.name.chars().count() as f64;
            if x + width > WIDTH - RIGHT && x > LEFT {
                x = LEFT;
                y += LEGEND_ROW;
            }
            svg.push_str(&format!(
                "<line class=\"{}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                class(i),
                x + 18.0
            ));
            svg.push_str(&format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 24.0, y + 4.0, escape(&s.name)));
            x += width;
        }
        svg.push_str("</g>");
        Self { svg, height: y - TOP + 12.0 }
    }
}

struct Plot {
    x: AxisScale,
    y: AxisScale,
    top: f64,
    bottom: f64,
}

impl Plot {
    fn new(curve: &Curve, top: f64) -> Self {
        let points = || curve.series.iter().flat_map(|s| &s.points);
        let bounds = |i: usize| {
            points().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| (low.min(p[i]), high.max(p[i])))
        };
        let ((x_low, x_high), (y_low, y_high)) = (bounds(0), bounds(1));
        Self {
            x: AxisScale::new(x_low, x_high, 7, false),
            y: AxisScale::new(y_low, y_high, 5, true),
            top,
            bottom: top + HEIGHT - TOP - BOTTOM,
        }
    }

    fn px(&self, x: f64) -> f64 {
        self.x.place(x, LEFT, WIDTH - RIGHT)
    }
    fn py(&self, y: f64) -> f64 {
        self.y.place(y, self.bottom, self.top)
    }

    fn axes(&self, curve: &Curve, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom);
        out.push_str("<g class=\"grid\">");
        for &v in &self.y.ticks {
            out.push_str(&format!("<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>", self.py(v)));
        }
        out.push_str("</g><g class=\"axis\">");
        out.push_str(&format!("<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>"));
        for &v in &self.x.ticks {
            let x = self.px(v);
            out.push_str(&format!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>", bottom + 4.0));
            out.push_str(&format!(
                "<text class=\"x\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 18.0,
                tick(v, self.x.step)
            ));
        }
        for &v in &self.y.ticks {
            out.push_str(&format!(
                "<text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                self.py(v) + 4.0,
                tick(v, self.y.step)
            ));
        }
        out.push_str(&format!(
            "<text class=\"label x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 38.0,
            escape(&curve.x)
        ));
        if !curve.y.is_empty() {
            let middle = (self.top + bottom) / 2.0;
            out.push_str(&format!(
                "<text class=\"label x\" transform=\"translate(14 {middle:.1}) rotate(-90)\">{}</text>",
                escape(&curve.y)
            ));
        }
        out.push_str("</g>");
    }

    fn line(&self, series: &Series, index: usize, out: &mut String) {
        let points = thinned(&series.points);
        let path: Vec<String> = points.iter().map(|p| format!("{:.1},{:.1}", self.px(p[0]), self.py(p[1]))).collect();
        out.push_str(&format!("<polyline class=\"{}\" points=\"{}\"/>", class(index), path.join(" ")));
        if points.len() <= DOTS {
            for p in &points {
                out.push_str(&format!(
                    "<circle class=\"dot {}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>{}: {} at {}</title></circle>",
                    class(index),
                    self.px(p[0]),
                    self.py(p[1]),
                    escape(&series.name),
                    super::numbers::number(p[1]),
                    super::numbers::number(p[0])
                ));
            }
        }
    }
}

fn class(index: usize) -> String {
    let color = index % COLORS + 1;
    if index < COLORS { format!("s{color}") } else { format!("s{color} dashed") }
}

/// Averages equal runs of points if there are too many to draw; the first and the last point stay.
fn thinned(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    let size = points.len().div_ceil(MOST_POINTS - 2);
    let average = |run: &[[f64; 2]]| {
        let n = run.len() as f64;
        [run.iter().map(|p| p[0]).sum::<f64>() / n, run.iter().map(|p| p[1]).sum::<f64>() / n]
    };
    std::iter::once(first).chain(points.chunks(size).map(average)).chain(std::iter::once(last)).collect()
}

/// Escapes text for XML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML cannot represent other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

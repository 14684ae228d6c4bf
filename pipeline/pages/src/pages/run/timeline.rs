//! Timeline of a run: one band per pool, bars for what each attempt held, dashed ones for its waits, and the reasons of
//! the gaps.

use crate::charts::ticks;
use crate::layout::{empty, scrolling};
use crate::links::Links;
use crate::text;
use maud::{Markup, html};
use trainyard_core::RunId;
use trainyard_engine::fold::RunView;
use trainyard_views::timeline::{AttemptInterval, TimelineView};
use trainyard_views::timeline_gaps::{PoolGap, gaps};

/// Maximum number of bars of a pool: the longest attempts.
const MAX_BARS: usize = 400;
/// Maximum number of lanes of a pool; further attempts share the last one.
const MAX_LANES: usize = 24;
/// Gaps of a pool in the table: the longest ones.
const MAX_GAPS: usize = 12;
const WIDTH: f64 = 960.0;
/// Width of a bar from which its name is written.
const MIN_TEXT: f64 = 60.0;
/// Width of the label of a tick.
const LABEL: f64 = 40.0;
const LANE: usize = 18;
const TOP: usize = 20;

/// Shows the timeline.
pub fn section(view: &RunView, links: &Links, run: &RunId) -> Markup {
    let timeline = TimelineView::of(view);
    let gaps = gaps(view, &timeline);
    if timeline.pools.is_empty() {
        return empty("No attempt has started yet.");
    }
    html! {
        @for (pool, intervals) in &timeline.pools {
            @let gaps = gaps.get(pool).map(Vec::as_slice).unwrap_or_default();
            h3 { "Pool " (text::visible(pool)) }
            (band(&timeline, pool, intervals, gaps, links, run))
            @if intervals.iter().any(|interval| !interval.waits.is_empty()) { (legend()) }
            @if !gaps.is_empty() { (gap_table(&timeline, pool, gaps, links, run)) }
        }
    }
}

fn band(
    timeline: &TimelineView,
    pool: &str,
    intervals: &[AttemptInterval],
    gaps: &[PoolGap],
    links: &Links,
    run: &RunId,
) -> Markup {
    let shown = longest(intervals);
    let (lanes, count) = lanes(&shown);
    let height = TOP + count * LANE + 4;
    let scale = TimeScale::of(timeline);
    html! {
        div .scroll role="region" aria-label=(format!("Timeline of pool {}", text::visible(pool))) tabindex="0" {
            svg .timeline width=(WIDTH) height=(height) viewBox=(format!("0 0 {WIDTH} {height}")) role="group"
                aria-label=(format!("{} attempts in pool {}", intervals.len(), text::visible(pool))) {
                @for (x, seconds) in scale.ticks() {
                    path .axis d=(format!("M{x:.1} {TOP}V{height}")) {}
                    @let anchor = (x > WIDTH - LABEL).then_some("end");
                    text .tick x=(format!("{x:.1}")) y="12" text-anchor=[anchor] { (text::seconds(seconds)) }
                }
                @for gap in gaps {
                    @let (x, width) = scale.bar(gap.from, gap.until);
                    rect .gap x=(x) y=(TOP) width=(width) height=(height - TOP) { title { (text::visible(&gap.why)) } }
                }
                @for (interval, lane) in shown.iter().zip(lanes) { (attempt(interval, lane, &scale, links, run)) }
            }
        }
        @if intervals.len() > shown.len() {
            p .muted { (intervals.len() - shown.len()) " shorter attempts are not drawn." }
        }
    }
}

/// Draws what an attempt held and, dashed, when it waited for the machine.
fn attempt(interval: &AttemptInterval, lane: usize, scale: &TimeScale, links: &Links, run: &RunId) -> Markup {
    let outcome = interval.outcome.as_deref().unwrap_or("running");
    let (symbol, name) = (text::status_symbol(outcome), text::cut(&interval.stage.0, 30).0);
    let top = TOP + lane * LANE;
    let segment = |class: &str, (from, until): (i64, i64), label: &str| {
        let (x, width) = scale.bar(from, until);
        html! {
            rect .(class) x=(x) y=(top) width=(width) height=(LANE - 3) rx="2" {}
            @if scale.has_text(from, until) { text x=(x) dx="4" y=(top + 11) { (label) } }
        }
    };
    let mut held = interval.held();
    if held.is_empty() && interval.waits.is_empty() {
        held.push((interval.started, interval.ended));
    }
    html! {
        a .attempt href=(links.stage(&run.0, &interval.stage.0)) data-status=(outcome) {
            title { (title(interval, outcome)) }
            @for wait in &interval.waits {
                (segment("wait", (wait.from, wait.until), &format!("◷ {name} waits")))
            }
            @for part in held { (segment("held", part, &format!("{symbol} {name}"))) }
        }
    }
}

/// Returns the outcome and the times of an attempt, with the reason of its last wait.
fn title(interval: &AttemptInterval, outcome: &str) -> String {
    let head = format!("{}, attempt {}: {outcome}", text::visible(&interval.stage.0), interval.attempt);
    let all = text::seconds(seconds_between(interval.started, interval.ended));
    let Some(last) = interval.waits.last() else { return format!("{head}, held {all}") };
    let held: i64 = interval.held().iter().map(|(from, until)| until - from).sum();
    let (held, waited) =
        (text::seconds(seconds_between(0, held)), text::seconds(seconds_between(0, interval.waited())));
    format!("{head}, held {held} of {all}, waited {waited} for the machine: {}", text::cut(&last.why, 400).0)
}

/// Explains the bars of a pool with waits.
fn legend() -> Markup {
    let key = |class: &str, words: &str| {
        html! {
            li {
                svg .timeline viewBox="0 0 28 10" aria-hidden="true" {
                    g .attempt { rect .(class) x="1" y="1" width="26" height="8" rx="2" {} }
                }
                (words)
            }
        }
    };
    html! {
        ul .legend {
            (key("held", "Whole outline: the attempt held its share of the pool"))
            (key("wait", "Dashed outline: it waited for the machine"))
        }
    }
}

fn gap_table(timeline: &TimelineView, pool: &str, gaps: &[PoolGap], links: &Links, run: &RunId) -> Markup {
    let mut longest: Vec<&PoolGap> = gaps.iter().collect();
    longest.sort_by_key(|gap| gap.from - gap.until);
    longest.truncate(MAX_GAPS);
    longest.sort_by_key(|gap| gap.from);
    scrolling(
        &format!("Gaps of pool {}", text::visible(pool)),
        &html! {
            table {
                thead { tr { th .n { "Free from" } th .n { "For" } th { "Why" } th { "Then" } } }
                tbody {
                    @for gap in &longest {
                        tr {
                            td .n { (text::seconds(seconds_between(timeline.from, gap.from))) }
                            td .n { (text::seconds(seconds_between(gap.from, gap.until))) }
                            td .wide { (text::cut(&gap.why, 400).0) }
                            td {
                                @if let Some(next) = &gap.next {
                                    a .mono href=(links.stage(&run.0, &next.0)) { (text::cut(&next.0, 80).0) }
                                }
                            }
                        }
                    }
                }
            }
        },
    )
}

/// Returns the attempts that are drawn, by start.
fn longest(intervals: &[AttemptInterval]) -> Vec<&AttemptInterval> {
    let mut shown: Vec<&AttemptInterval> = intervals.iter().collect();
    if shown.len() > MAX_BARS {
        shown.sort_by_key(|interval| interval.started - interval.ended);
        shown.truncate(MAX_BARS);
        shown.sort_by_key(|interval| interval.started);
    }
    shown
}

/// Returns the lane of each attempt, so that attempts at the same time do not overlap, and the number of lanes.
fn lanes(intervals: &[&AttemptInterval]) -> (Vec<usize>, usize) {
    let mut free: Vec<i64> = Vec::new();
    let lane = |interval: &&AttemptInterval| {
        let lane = free.iter().position(|until| *until <= interval.started);
        let lane = lane.unwrap_or(free.len().min(MAX_LANES - 1));
        if lane == free.len() {
            free.push(interval.ended);
        } else {
            free[lane] = free[lane].max(interval.ended);
        }
        lane
    };
    let lanes: Vec<usize> = intervals.iter().map(lane).collect();
    (lanes, free.len())
}

#[expect(clippy::cast_precision_loss, reason = "times are drawn")]
fn seconds_between(from: i64, until: i64) -> f64 {
    (until - from).max(0) as f64 / 1_000.0
}

/// Map from times to places.
struct TimeScale {
    from: i64,
    seconds: f64,
}

impl TimeScale {
    fn of(timeline: &TimelineView) -> Self {
        Self { from: timeline.from, seconds: seconds_between(timeline.from, timeline.until).max(0.001) }
    }
    fn place(&self, at: i64) -> f64 {
        (seconds_between(self.from, at) / self.seconds).min(1.0) * WIDTH
    }
    /// Returns the place and the width of a bar, which is never invisible.
    fn bar(&self, from: i64, until: i64) -> (String, String) {
        let (x, end) = (self.place(from), self.place(until));
        (format!("{x:.1}"), format!("{:.1}", (end - x).max(1.5)))
    }
    /// Returns whether a bar is wide enough for the name of its stage.
    fn has_text(&self, from: i64, until: i64) -> bool {
        self.place(until) - self.place(from) >= MIN_TEXT
    }
    /// Returns the places of round times, in seconds since the start.
    fn ticks(&self) -> Vec<(f64, f64)> {
        ticks((0.0, self.seconds), 8).into_iter().map(|seconds| (seconds / self.seconds * WIDTH, seconds)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::StageKey;
    use trainyard_views::timeline::WaitInterval;

    fn interval(started: i64, ended: i64) -> AttemptInterval {
        AttemptInterval { stage: StageKey("s".into()), attempt: 1, started, ended, waits: Vec::new(), outcome: None }
    }

    #[test]
    fn attempts_at_the_same_time_have_their_own_lanes() {
        let intervals = [interval(0, 10), interval(5, 20), interval(10, 30), interval(25, 26)];
        assert_eq!(lanes(&longest(&intervals)), (vec![0, 1, 0, 1], 2));
        let many: Vec<AttemptInterval> = (0..100).map(|_| interval(0, 10)).collect();
        assert_eq!(lanes(&longest(&many)).1, MAX_LANES);
    }

    #[test]
    fn waits_are_drawn_apart_from_what_an_attempt_held() {
        let why = "slots, held by <b>\u{202e}".to_string();
        let mut waiting = interval(0, 32_000);
        waiting.waits = vec![WaitInterval { from: 0, until: 27_000, why }];
        let timeline = TimelineView { from: 0, until: 32_000, ..TimelineView::default() };
        let (links, run) = (Links::from_path("/runs/r"), RunId("r".into()));
        let scale = TimeScale::of(&timeline);
        let html = attempt(&waiting, 0, &scale, &links, &run).into_string();
        assert!(html.contains(r#"<rect class="wait" x="0.0" y="20" width="810.0""#), "{html}");
        assert!(html.contains(r#"<rect class="held" x="810.0" y="20" width="150.0""#), "{html}");
        assert!(html.contains("held 5.0s of 32.0s, waited 27.0s for the machine: slots, held by &lt;b&gt;"), "{html}");
        assert!(html.contains("◷ s waits") && !html.contains('\u{202e}'), "{html}");
        let html = attempt(&interval(0, 0), 0, &scale, &links, &run).into_string();
        assert!(html.contains(r#"class="held""#) && !html.contains("wait"), "a short attempt is visible: {html}");
    }

    #[test]
    fn short_attempts_are_left_out_first() {
        let many: Vec<AttemptInterval> = (0..500).map(|n| interval(n, 2 * n)).collect();
        let shown = longest(&many);
        assert_eq!((shown.len(), shown[0].started), (MAX_BARS, 100));
        assert!(shown.is_sorted_by_key(|interval| interval.started));
    }

    #[test]
    fn bars_are_visible_and_within_the_width() {
        let timeline = TimelineView { from: 1_000, until: 11_000, ..TimelineView::default() };
        let scale = TimeScale::of(&timeline);
        assert_eq!(scale.bar(1_000, 6_000), ("0.0".to_string(), "480.0".to_string()));
        assert_eq!(scale.bar(6_000, 6_000), ("480.0".to_string(), "1.5".to_string()));
        assert_eq!(scale.ticks().len(), 6);
    }
}

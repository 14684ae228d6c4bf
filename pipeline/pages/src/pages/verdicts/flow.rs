//! Chart of the rows through the rules of a filter: a band that narrows at each rule by the rows that it drops.

use crate::layout::scrolling;
use crate::text::{count, cut};
use maud::{Markup, html};
use trainyard_views::filter_flow::{FilterFlow, RuleFlow};

const WIDTH: f64 = 720.0;
/// Width of the band of all rows.
const BAND: f64 = 320.0;
/// Left edge of the band.
const LEFT: f64 = 180.0;
/// Height of a rule.
const RULE: f64 = 46.0;
/// Height of a bar.
const BAR: f64 = 18.0;
/// Characters of a rule's name.
const NAME: usize = 24;
/// Rules that are drawn; the table has all.
const MAX_RULES: usize = 60;

/// Draws the rules from the first to the last.
pub fn chart(found: &FilterFlow) -> Markup {
    let rules = &found.rules[..found.rules.len().min(MAX_RULES)];
    let most = rules.iter().map(|rule| rule.judged).max().unwrap_or(0).max(1);
    #[expect(clippy::cast_precision_loss, reason = "a place in an image")]
    let height = RULE * rules.len() as f64 + BAR + 10.0;
    html! {
        @if !rules.is_empty() {
            (scrolling("Rows through the rules", &html! {
                svg .chart .flow viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img" aria-label=(label(found)) {
                    @for (number, rule) in rules.iter().enumerate() { (drawn(number, rule, most)) }
                    (end(rules, most))
                }
            }))
        }
        @if found.rules.len() > MAX_RULES {
            p .muted { (found.rules.len() - MAX_RULES) " more rules are in the table" }
        }
    }
}

fn label(found: &FilterFlow) -> String {
    let rule = |rule: &RuleFlow| format!("{} drops {} of {}", rule.rule, count(rule.rejected), count(rule.judged));
    let rules: Vec<String> = found.rules.iter().take(MAX_RULES).map(rule).collect();
    let text = format!("{} rows; {}; {} are kept", count(found.rows), rules.join("; "), count(found.kept));
    crate::text::visible(&text).into_owned()
}

/// Returns the width of a number of rows.
#[expect(clippy::cast_precision_loss, reason = "a place in an image")]
fn width(rows: u64, most: u64) -> f64 {
    if rows == 0 { 0.0 } else { (BAND * rows as f64 / most as f64).max(1.0) }
}

#[expect(clippy::cast_precision_loss, reason = "a place in an image")]
fn top(number: usize) -> f64 {
    RULE * number as f64 + 4.0
}

fn drawn(number: usize, rule: &RuleFlow, most: u64) -> Markup {
    let (top, judged, kept) = (top(number), width(rule.judged, most), width(rule.kept(), most));
    let (bottom, next) = (top + BAR, top + RULE);
    let dropped = (judged - kept).max(0.0);
    let edge = LEFT + BAND + 12.0;
    let text = match (rule.rejected, rule.edited) {
        (0, None) => "drops none".to_string(),
        (rejected, None) => format!("drops {}", count(rejected)),
        (0, Some(edited)) => format!("edits {}", count(edited)),
        (rejected, Some(edited)) => format!("drops {}, edits {}", count(rejected), count(edited)),
    };
    html! {
        text x=(LEFT - 10.0) y=(top + 13.0) text-anchor="end" { (cut(&rule.rule, NAME).0) }
        rect .bar.c0 x=(LEFT) y=(top) width=(format!("{judged:.1}")) height=(BAR) {}
        text .on-bar x=(LEFT + 6.0) y=(top + 13.0) { (count(rule.judged)) }
        path .area.c0 d=(format!("M{LEFT} {bottom}H{:.1}V{next}H{LEFT}Z", LEFT + kept)) {}
        @if rule.rejected > 0 {
            path .area.c1 d=(format!("M{:.1} {bottom}H{:.1}L{edge:.1} {:.1}V{:.1}Z",
                LEFT + kept, LEFT + kept + dropped, bottom + 8.0, bottom + 14.0)) {}
        }
        text x=(edge + 4.0) y=(bottom + 14.0) { (text) }
    }
}

/// Draws the rows that are left after the last rule.
fn end(rules: &[RuleFlow], most: u64) -> Markup {
    let kept = rules.last().map_or(0, RuleFlow::kept);
    let top = top(rules.len());
    html! {
        text x=(LEFT - 10.0) y=(top + 13.0) text-anchor="end" { "kept" }
        rect .bar.c2 x=(LEFT) y=(top) width=(format!("{:.1}", width(kept, most))) height=(BAR) {}
        text .on-bar x=(LEFT + 6.0) y=(top + 13.0) { (count(kept)) }
    }
}

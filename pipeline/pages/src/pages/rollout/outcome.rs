//! Outcome of a rollout: verdict, answer, reward by component, verdicts of filters, contexts, forks.

use super::page::RowPage;
use crate::layout::scrolling;
use crate::links::query;
use crate::pages::rollout_parts::{forks, words};
use crate::text::{count, number};
use maud::{Markup, html};
use trainyard_tables::Trajectory;
use trainyard_views::rollouts::{ContextRow, RolloutDetail};

/// Maximum characters of an answer.
const ANSWER: usize = 1_000;
/// Maximum rows of a small table.
const ROWS: usize = 50;

/// Shows the outcome.
pub fn section(page: &RowPage, found: &RolloutDetail) -> Markup {
    let rollout = &found.rollout;
    html! {
        p .mono { (words::short(&rollout.id, 200)) }
        (group_links(page, rollout))
        h2 { "Outcome" }
        dl .tiles {
            (tile("Verdict", &words::verdict(found.verdict)))
            (tile("Reward", &html! { (number(rollout.reward)) }))
            (tile("End", &html! { (words::word(&rollout.stop_reason)) }))
            (tile("Episode", &html! { (words::word(&rollout.status)) }))
            (tile("Turns", &html! { (rollout.turns) }))
            (tile("Tool calls", &html! { (rollout.tool_calls) ", " (rollout.tool_errors) " failed" }))
            @if !rollout.loss_mask.is_empty() { (tile("Tokens", &html! { (count(rollout.loss_mask.len() as u64)) })) }
            (tile("Level", &html! { @if rollout.level == 0 { "unknown" } @else { (rollout.level) } }))
            @if let Some(step) = rollout.update { (tile("Step", &html! { "step " (step) })) }
            (tile("Temperature", &html! { (number(rollout.sampling.temperature)) }))
        }
        (answer(rollout))
        (rewards(rollout))
        (filters(rollout))
        @if found.contexts.len() > 1 { (contexts(&found.contexts)) }
        @if !found.forks.is_empty() {
            h2 { "Forks of the group" }
            p .muted { "At most 100 rollouts of the group near this row. Forks share the tokens before them." }
            (forks::tree(&page.request.links, &page.place, &found.forks, Some(page.row)))
        }
    }
}

fn tile(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn group_links(page: &RowPage, rollout: &Trajectory) -> Markup {
    let (links, place) = (&page.request.links, &page.place);
    let (step, near) = (rollout.update.map(|step| step.to_string()), page.row.to_string());
    let mut parameters = vec![("near", near.as_str()), ("problem", rollout.problem_id.as_str())];
    parameters.extend(step.as_deref().map(|step| ("step", step)));
    let group = place.within(links, &["groups", &rollout.group.to_string()]);
    html! {
        nav .pages aria-label="Related rollouts" {
            a href=(format!("{group}{}", query(&parameters))) { "Group " (rollout.group) " side by side" }
            @if !rollout.problem_id.is_empty() {
                a href=(place.within(links, &["problems", &rollout.problem_id])) {
                    "Problem " (words::short(&rollout.problem_id, 80)) " over all steps"
                }
            }
        }
    }
}

fn answer(rollout: &Trajectory) -> Markup {
    html! {
        h2 { "Answer" }
        dl .answer {
            @match &rollout.answer_check {
                Some(check) => {
                    dt { "Expected" } dd { pre { (words::short(&check.expected, ANSWER)) } }
                    dt { "Extracted" }
                    dd {
                        @match (&check.extracted, &check.unreadable) {
                            (Some(extracted), _) => pre { (words::short(extracted, ANSWER)) },
                            (None, Some(reason)) => p { "not readable: " (words::short(reason, ANSWER)) },
                            (None, None) => p { "no answer" },
                        }
                    }
                    dt { "Verifier" } dd { (words::short(&check.verifier, 200)) }
                }
                None => {
                    dt { "Given" }
                    dd {
                        @if let Some(answer) = &rollout.answer { pre { (words::short(answer, ANSWER)) } }
                        @else { "no answer" }
                    }
                    dt { "Verifier" } dd { "none judged this row" }
                }
            }
        }
    }
}

fn rewards(rollout: &Trajectory) -> Markup {
    let more = rollout.rewards.len().saturating_sub(ROWS);
    html! {
        @if !rollout.rewards.is_empty() {
            h2 { "Reward by component" }
            (scrolling("Reward by component", &html! {
                table .narrow {
                    thead { tr { th { "Component" } th .n { "Value" } } }
                    tbody {
                        @for (name, value) in rollout.rewards.iter().take(ROWS) {
                            tr { td .wide { (words::short(name, 120)) } td .n { (number(*value)) } }
                        }
                        tr { td { strong { "Weighted sum" } } td .n { strong { (number(rollout.reward)) } } }
                    }
                }
            }))
            @if more > 0 { p .muted { (count(more as u64)) " more components" } }
        }
        @if !rollout.turn_rewards.is_empty() {
            p {
                "Rewards of the turns: "
                @for (turn, reward) in rollout.turn_rewards.iter().take(ROWS).enumerate() {
                    @if turn > 0 { ", " }
                    (number(*reward))
                }
                @if rollout.turn_rewards.len() > ROWS {
                    " and " (count((rollout.turn_rewards.len() - ROWS) as u64)) " more"
                }
            }
        }
    }
}

fn filters(rollout: &Trajectory) -> Markup {
    let more = rollout.verdicts.len().saturating_sub(ROWS);
    html! {
        @if !rollout.verdicts.is_empty() {
            h2 { "Verdicts of filters" }
            (scrolling("Verdicts of filters", &html! {
                table {
                    thead { tr { th { "Filter" } th { "Verdict" } th { "Reason" } } }
                    tbody {
                        @for verdict in rollout.verdicts.iter().take(ROWS) {
                            tr {
                                td { (words::short(&verdict.rule, 80)) }
                                td {
                                    @if verdict.keep { span .right { "✓ kept" } }
                                    @else { span .wrong { "✗ dropped" } }
                                }
                                td .wide { (words::short(&verdict.reason, 400)) }
                            }
                        }
                    }
                }
            }))
            @if more > 0 { p .muted { (count(more as u64)) " more verdicts" } }
        }
    }
}

fn contexts(contexts: &[ContextRow]) -> Markup {
    let more = contexts.len().saturating_sub(ROWS);
    html! {
        h2 { "Segments" }
        p .muted { "The model read each segment as a separate sequence, without the tokens of those before it." }
        (scrolling("Segments", &html! {
            table {
                thead { tr { th .n { "Segment" } th .n { "Tokens" } th .n { "First token" } th .n { "Sampled" } } }
                tbody {
                    @for (number, context) in contexts.iter().take(ROWS).enumerate() {
                        tr {
                            td .n { (number + 1) }
                            td .n { (count(context.tokens.len() as u64)) }
                            td .n { (count(context.tokens.start as u64)) }
                            td .n { (count(context.sampled as u64)) }
                        }
                    }
                }
            }
        }))
        @if more > 0 { p .muted { (count(more as u64)) " more segments" } }
    }
}

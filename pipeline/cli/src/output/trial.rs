//! Formats the episodes of a trial as text and as JSON.

use super::conversation;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trainyard_api::{Component, TrialEpisode};
use trainyard_app::trial::TrialResult;
use trainyard_tables::EpisodeStatus;
use trainyard_views::trajectory::PER_TOKEN;

/// Formats every episode as a conversation, with a summary line at the end.
pub fn text(result: &TrialResult) -> String {
    let mut text = String::new();
    for (i, tried) in result.episodes.iter().enumerate() {
        let _ = writeln!(text, "════ episode {} of {}", i + 1, result.episodes.len());
        let _ = writeln!(text, "{}\n", episode(tried));
    }
    text + &summary(result)
}

/// Returns all episodes as JSON.
pub fn document(result: &TrialResult) -> Value {
    let one = |tried: &TrialEpisode| {
        json!({
            "episode": cells(tried), "problem": tried.problem, "correct": tried.correct,
            "rewards": tried.components, "tokens": tokens(tried),
        })
    };
    let episodes: Vec<Value> = result.episodes.iter().map(one).collect();
    json!({"stage": result.stage, "kind": result.kind, "episodes": episodes})
}

fn episode(tried: &TrialEpisode) -> String {
    let row = &tried.trajectory;
    let cells = cells(tried);
    let mut text = conversation::conversation_text(&serde_json::to_value(row).unwrap_or_default());
    let verdict = match row.status {
        EpisodeStatus::Infrastructure => Some("verdict not judged: the infrastructure failed".to_string()),
        EpisodeStatus::Ok => cells.as_object().and_then(conversation::answer),
    };
    if let Some(verdict) = verdict {
        let _ = write!(text, "\n{verdict}");
    }
    for component in &tried.components {
        let _ = write!(text, "\n  {}", weighted(component));
    }
    let tokens = tokens(tried);
    if tokens["all"] != 0 {
        let _ = write!(
            text,
            "\ntokens {}: {} in the prompt, {} sampled",
            tokens["all"], tokens["prompt"], tokens["sampled"]
        );
    }
    text
}

/// Formats a reward component: `answer 1 × weight 0.5 = 0.5`.
fn weighted(component: &Component) -> String {
    let Component { name, weight, value } = component;
    match value {
        Some(value) => format!("{name} {value} × weight {weight} = {}", value * weight),
        None => format!("{name} does not apply"),
    }
}

/// Returns the row of an episode without its columns of tokens.
fn cells(tried: &TrialEpisode) -> Value {
    let mut cells = serde_json::to_value(&tried.trajectory).unwrap_or_default();
    if let Some(cells) = cells.as_object_mut() {
        cells.retain(|name, _| !PER_TOKEN.contains(&name.as_str()));
    }
    cells
}

fn tokens(tried: &TrialEpisode) -> Value {
    let row = &tried.trajectory;
    let sampled = row.loss_mask.iter().filter(|is_sampled| **is_sampled).count();
    json!({"all": row.token_ids.len(), "prompt": row.prompt_tokens, "sampled": sampled})
}

fn summary(result: &TrialResult) -> String {
    let all = &result.episodes;
    let ended: Vec<&TrialEpisode> = all.iter().filter(|t| t.trajectory.status == EpisodeStatus::Ok).collect();
    let right = ended.iter().filter(|t| t.correct).count();
    let mean = ended.iter().map(|t| t.trajectory.reward).sum::<f64>() / ended.len().max(1) as f64;
    let noun = if all.len() == 1 { "episode" } else { "episodes" };
    let mut text = format!("{} {noun} of {}: {right} right, mean reward {mean:.4}", all.len(), result.stage);
    if ended.len() < all.len() {
        let _ = write!(text, ", {} ended by the infrastructure", all.len() - ended.len());
    }
    text + "; nothing was stored"
}

//! Many episodes at a time: while some wait for the model, the tools of others run.

use super::model_episode::{ModelEpisode, PlayedEpisode};
use super::player::{Player, PlayerJob};
use crate::tools::ToolSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_chat::{ChatClient, ChatRequestId};
use trainyard_core::{Error, Result};

/// Episodes in flight; changes no result.
const IN_FLIGHT: usize = 512;
/// How long to wait for tools or the model before the other episodes are polled.
const TURN: Duration = Duration::from_millis(20);

/// Plays all episodes and returns them in the order of the jobs. `progress` receives the number of finished episodes.
///
/// Errors: those of [`ChatClient::next`], and of the environment; invalid, if a program keeps the conversation. A request
/// that the server rejects ends its episode as an infrastructure failure.
pub fn play(
    player: &Player<'_>,
    chat: &mut ChatClient,
    jobs: &[PlayerJob<'_>],
    mut progress: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<PlayedEpisode>> {
    if !player.environment.prompts() {
        let kind = player.environment.kind();
        return Err(Error::invalid(format!(
            "a model behind an endpoint cannot play `{kind}`, whose program asks it by itself"
        ))
        .help("tell the program the address of the model, or play it with a model artifact"));
    }
    let tools: Vec<Value> =
        if player.native { player.environment.tools() } else { Vec::new() }.iter().map(ToolSpec::schema).collect();
    let mut played: Vec<Option<PlayedEpisode>> = jobs.iter().map(|_| None).collect();
    let mut asked: BTreeMap<ChatRequestId, (usize, ModelEpisode<'_>)> = BTreeMap::new();
    let mut running: Vec<(usize, ModelEpisode<'_>)> = Vec::new();
    let (mut next, mut over) = (0, 0);
    while over < jobs.len() {
        while next < jobs.len() && asked.len() + running.len() < IN_FLIGHT {
            let game = ModelEpisode::start(player, &tools, jobs[next])?;
            asked.insert(chat.send(&game.next_request())?, (next, game));
            next += 1;
        }
        // Wait for a tool only while no answer of the model is outstanding.
        let wait = if asked.is_empty() { TURN } else { Duration::ZERO };
        for (place, mut game) in std::mem::take(&mut running) {
            match game.wait(wait)? {
                true => drop(asked.insert(chat.send(&game.next_request())?, (place, game))),
                false => running.push((place, game)),
            }
        }
        let wait = if running.is_empty() { 10 * TURN } else { TURN };
        if let Some((ticket, answer)) = chat.next(wait)?
            && let Some((place, mut game)) = asked.remove(&ticket)
        {
            match game.receive_answer(answer)? {
                true => drop(asked.insert(chat.send(&game.next_request())?, (place, game))),
                false => running.push((place, game)),
            }
        }
        let ended: Vec<(usize, ModelEpisode<'_>)> = running.extract_if(.., |(_, game)| game.is_over()).collect();
        for (place, game) in ended {
            played[place] = Some(game.finish(player)?);
            over += 1;
            progress(over)?;
        }
    }
    played.into_iter().map(|one| one.ok_or_else(|| Error::bug("an episode was not played"))).collect()
}

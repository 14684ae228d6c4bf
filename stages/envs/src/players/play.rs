//! Plays many episodes at a time: while some wait for the model, the tools of others run.

use super::model_episode::{ModelEpisode, PlayedEpisode};
use super::player::{Player, PlayerJob};
use crate::tools::ToolSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_chat::{ChatClient, ChatRequestId};
use trainyard_core::{Error, Result};

/// Maximum number of episodes in flight. It affects no result.
const IN_FLIGHT: usize = 512;
/// Maximum wait for tools or the model before the other episodes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Plays all episodes and returns them in the order of the jobs. `progress` receives the number of finished episodes,
/// and its errors stop the playing.
///
/// Errors: those of [`ChatClient::next`], and of the environment; invalid, if a program drives the episode. A request
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
            "a model behind an endpoint cannot play environment `{kind}`, whose program sends the requests itself"
        ))
        .help("configure the address of the model in the program, or use a model artifact"));
    }
    let tools: Vec<Value> =
        if player.native { player.environment.tools() } else { Vec::new() }.iter().map(ToolSpec::schema).collect();
    let mut played: Vec<Option<PlayedEpisode>> = jobs.iter().map(|_| None).collect();
    let mut pending: BTreeMap<ChatRequestId, (usize, ModelEpisode<'_>)> = BTreeMap::new();
    let mut running: Vec<(usize, ModelEpisode<'_>)> = Vec::new();
    let (mut next, mut finished) = (0, 0);
    while finished < jobs.len() {
        while next < jobs.len() && pending.len() + running.len() < IN_FLIGHT {
            let episode = ModelEpisode::start(player, &tools, jobs[next])?;
            pending.insert(chat.send(&episode.next_request())?, (next, episode));
            next += 1;
        }
        // Wait for a tool only while no response of the model is outstanding.
        let wait = if pending.is_empty() { POLL_INTERVAL } else { Duration::ZERO };
        for (index, mut episode) in std::mem::take(&mut running) {
            match episode.wait(wait)? {
                true => drop(pending.insert(chat.send(&episode.next_request())?, (index, episode))),
                false => running.push((index, episode)),
            }
        }
        let wait = if running.is_empty() { 10 * POLL_INTERVAL } else { POLL_INTERVAL };
        if let Some((id, response)) = chat.next(wait)?
            && let Some((index, mut episode)) = pending.remove(&id)
        {
            match episode.receive_answer(response)? {
                true => drop(pending.insert(chat.send(&episode.next_request())?, (index, episode))),
                false => running.push((index, episode)),
            }
        }
        let ended: Vec<(usize, ModelEpisode<'_>)> = running.extract_if(.., |(_, episode)| episode.is_over()).collect();
        for (index, episode) in ended {
            played[index] = Some(episode.finish(player)?);
            finished += 1;
            progress(finished)?;
        }
    }
    played.into_iter().map(|one| one.ok_or_else(|| Error::bug("an episode was not played"))).collect()
}

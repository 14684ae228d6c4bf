//! Handles the requests of a program that keeps its conversation: finds the segment that a request continues, and
//! responds.
//!
//! A request that continues a turn of any segment joins that segment, with the tokens sampled there. Any other request
//! begins a segment, because the program rewrites its history or has a second conversation.

use super::live_episode::LiveEpisode;
use super::program_segments::ProgramSegments;
use super::segment::ConversationSegment;
use trainyard_core::{Error, Result};
use trainyard_envs::{AgentTurnRequest, TurnTokens};
use trainyard_learn::ProgramCalls;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::TokenizedConversation;
use trainyard_tables::Message;

impl<'a> LiveEpisode<'a> {
    /// Returns whether the sequence decodes a segment other than the current one.
    pub(super) fn is_decoding_other(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.decoding.is_some())
    }
    /// Moves the state of the sequence into the segment that it decoded.
    pub(super) fn store_samples(&mut self, state: SequenceState) {
        let decoded = self.program.as_mut().and_then(|program| {
            let number = program.decoding.take()?;
            program.other_segments.iter_mut().find(|(other, _)| *other == number)
        });
        match decoded {
            Some((_, segment)) => segment.store_samples(state),
            None => self.segment.store_samples(state),
        }
    }
    /// Continues the segment that a request belongs to, and opens the next turn. Returns false if there is no room.
    pub(super) fn continue_request(&mut self, request: AgentTurnRequest, limit: usize) -> Result<bool> {
        let Some(program) = self.program.as_mut() else {
            return Err(Error::bug("a program sends a request where the environment keeps the conversation"));
        };
        program.max_tokens = request.max_tokens;
        program.form.clone_from(&request.form);
        let continues =
            |segment: &ConversationSegment<'_>| segment.is_continued_by(&request.messages, request.tools.as_deref());
        // The longest segment is chosen, so that a conversation continues and not the one from which it branched.
        let other = program.other_segments.iter().enumerate().filter(|(_, (_, segment))| continues(segment));
        let other = other.max_by_key(|(_, (_, segment))| segment.known.len()).map(|(at, _)| at);
        let found = if continues(&self.segment) { Some(None) } else { other.map(Some) };
        let Some(place) = found else { return self.begin_segment(&request, limit) };
        let segment = place.map_or(&self.segment, |at| &program.other_segments[at].1);
        let known = segment.known.len();
        let mut next = segment.conversation.clone();
        let Some(continuation) = next.continue_turn(&request.template_messages[known..])? else {
            return self.begin_segment(&request, limit);
        };
        if next.context().len() >= limit {
            return Ok(false);
        }
        program.counts.healed += u32::from(continuation.healed);
        if let Some(at) = place {
            let (number, segment) = program.other_segments.remove(at);
            self.switch_segment(number, segment);
            self.observation.clear();
        } else {
            self.observation = continuation.tokens;
        }
        self.tool_calls += results(&request.messages[known..]);
        self.segment.conversation = next;
        self.segment.known = request.messages;
        Ok(true)
    }
    /// Begins a segment. Turns that were sampled in other segments become input with the tokens that were sampled.
    /// Returns false if there is no room.
    fn begin_segment(&mut self, request: &AgentTurnRequest, limit: usize) -> Result<bool> {
        let Some(program) = self.program.as_mut() else { return Ok(false) };
        let (mut repeats, mut messages) = (false, Vec::with_capacity(request.template_messages.len()));
        for (message, written) in request.messages.iter().zip(&request.template_messages) {
            let all = program.other_segments.iter().map(|(_, segment)| segment).chain([&self.segment]);
            let sampled = all.filter_map(|segment| segment.sampled(message)).next_back();
            let sampled = sampled.filter(|_| message.role == "assistant");
            repeats |= sampled.is_some();
            messages.push(sampled.unwrap_or(written).clone());
        }
        let mut conversation = TokenizedConversation::new(program.chat, request.tools.as_deref());
        conversation.extend(&program.chat.escaped(&messages))?;
        conversation.open_first_turn()?;
        if conversation.context().len() >= limit {
            return Ok(false);
        }
        let new = program.counts.segments as usize;
        program.counts.segments += 1;
        program.counts.forked += u32::from(repeats);
        let (known, prompt) = (request.messages.clone(), request.messages.len());
        let segment = ConversationSegment { known, prompt, ..ConversationSegment::new(conversation) };
        if new == 0 {
            self.tool_calls += results(&request.messages);
        }
        self.switch_segment(new, segment);
        self.observation.clear();
        Ok(true)
    }
    /// Makes another segment the current one.
    fn switch_segment(&mut self, number: usize, segment: ConversationSegment<'a>) {
        let Some(program) = self.program.as_mut() else { return };
        let before = std::mem::replace(&mut self.segment, segment);
        if let Some(previous) = program.current.replace(number) {
            program.other_segments.push((previous, before));
            if self.sequence.is_some() && program.decoding.is_none() {
                program.decoding = Some(previous);
            }
            program.switches += 1;
        }
    }
    /// Sends the tokens of the sampled turn to the episode, if a program keeps the conversation.
    pub(super) fn send_turn_tokens(&mut self, state: &SequenceState) -> Result<()> {
        let Some(program) = &self.program else { return Ok(()) };
        let first = state.token_ids.len() - state.sampled_in_turn().len();
        let (prompt, ids) = state.token_ids.split_at(first);
        let tokenizer = program.chat.tokenizer();
        let texts = ids.iter().map(|id| tokenizer.decode(&[*id])).collect::<Result<Vec<String>>>()?;
        let logprobs = state.logprobs[first..].to_vec();
        let opened = program.prompt_end(prompt)?;
        let (prompt, ids) = (prompt.to_vec(), ids.to_vec());
        self.episode.record_tokens(TurnTokens { prompt, opened, ids, texts, logprobs, cut: self.truncated });
        Ok(())
    }
    /// Returns all segments in the order in which they began, and the counts of the program's requests.
    pub(super) fn segments(
        program: Option<Box<ProgramSegments<'a>>>,
        current: ConversationSegment<'a>,
    ) -> (Vec<ConversationSegment<'a>>, ProgramCalls) {
        let Some(program) = program else { return (vec![current], ProgramCalls::default()) };
        let mut all = program.other_segments;
        all.push((program.current.unwrap_or(0), current));
        all.sort_by_key(|(number, _)| *number);
        (all.into_iter().map(|(_, segment)| segment).collect(), program.counts)
    }
}

/// Counts tool results among messages.
fn results(messages: &[Message]) -> u32 {
    messages.iter().filter(|message| message.role == "tool").count() as u32
}

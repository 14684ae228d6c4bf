//! Requests of a program that keeps its conversation: which segment each continues, and the response to it.
//!
//! A request that continues a turn of any segment joins that segment, with the tokens sampled there. Any other request
//! begins a segment: the program rewrites its history or has a second conversation.

use super::live_episode::LiveEpisode;
use super::program_segments::ProgramSegments;
use super::segment::ConversationSegment;
use trainyard_core::{Error, Result};
use trainyard_envs::{AgentTurnRequest, TurnTokens};
use trainyard_learn::ProgramCalls;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::TokenizedConversation;
use trainyard_tables::Message;

/// Length of a generation prompt's end, in tokens, that may open a thought.
const OPENING_TOKENS: usize = 32;

impl<'a> LiveEpisode<'a> {
    /// Returns whether the sequence decodes a segment other than the current one.
    pub(super) fn is_decoding_other(&self) -> bool {
        self.program.as_ref().is_some_and(|kept| kept.decoding.is_some())
    }
    /// Moves the state of the sequence into the segment that it decoded.
    pub(super) fn store_samples(&mut self, state: SequenceState) {
        let left = self.program.as_mut().and_then(|kept| {
            let number = kept.decoding.take()?;
            kept.other_segments.iter_mut().find(|(other, _)| *other == number)
        });
        match left {
            Some((_, segment)) => segment.store_samples(state),
            None => self.segment.store_samples(state),
        }
    }
    /// Continues the segment that a request belongs to and opens the next turn. Returns false if there is no room.
    pub(super) fn continue_request(&mut self, asked: AgentTurnRequest, most: usize) -> Result<bool> {
        let Some(kept) = self.program.as_mut() else {
            return Err(Error::bug("a program asks where none keeps the conversation"));
        };
        kept.max_tokens = asked.max_tokens;
        let goes_on =
            |segment: &ConversationSegment<'_>| segment.is_continued_by(&asked.messages, asked.tools.as_deref());
        // The longest segment, so that a conversation continues rather than the one that it was branched from.
        let beside = kept.other_segments.iter().enumerate().filter(|(_, (_, segment))| goes_on(segment));
        let beside = beside.max_by_key(|(_, (_, segment))| segment.known.len()).map(|(at, _)| at);
        let found = if goes_on(&self.segment) { Some(None) } else { beside.map(Some) };
        let Some(place) = found else { return self.begin_segment(&asked, most) };
        let segment = place.map_or(&self.segment, |at| &kept.other_segments[at].1);
        let known = segment.known.len();
        let mut next = segment.conversation.clone();
        let Some(went_on) = next.continue_turn(&asked.template_messages[known..])? else {
            return self.begin_segment(&asked, most);
        };
        if next.context().len() >= most {
            return Ok(false);
        }
        kept.counts.healed += u32::from(went_on.healed);
        if let Some(at) = place {
            let (number, segment) = kept.other_segments.remove(at);
            self.switch_segment(number, segment);
            self.observation.clear();
        } else {
            self.observation = went_on.tokens;
        }
        self.tool_calls += results(&asked.messages[known..]);
        self.segment.conversation = next;
        self.segment.known = asked.messages;
        Ok(true)
    }
    /// Begins a segment. Turns sampled in other segments are inserted as they were sampled, as input.
    fn begin_segment(&mut self, asked: &AgentTurnRequest, most: usize) -> Result<bool> {
        let Some(kept) = self.program.as_mut() else { return Ok(false) };
        let (mut repeats, mut told) = (false, Vec::with_capacity(asked.template_messages.len()));
        for (message, written) in asked.messages.iter().zip(&asked.template_messages) {
            let all = kept.other_segments.iter().map(|(_, segment)| segment).chain([&self.segment]);
            let sampled = all.filter_map(|segment| segment.sampled(message)).next_back();
            let sampled = sampled.filter(|_| message.role == "assistant");
            repeats |= sampled.is_some();
            told.push(sampled.unwrap_or(written).clone());
        }
        let mut conversation = TokenizedConversation::new(kept.chat, asked.tools.as_deref());
        conversation.extend(&kept.chat.escaped(&told))?;
        conversation.open_first_turn()?;
        if conversation.context().len() >= most {
            return Ok(false);
        }
        let new = kept.counts.segments as usize;
        kept.counts.segments += 1;
        kept.counts.forked += u32::from(repeats);
        let (known, prompt) = (asked.messages.clone(), asked.messages.len());
        let segment = ConversationSegment { known, prompt, ..ConversationSegment::new(conversation) };
        if new == 0 {
            self.tool_calls += results(&asked.messages);
        }
        self.switch_segment(new, segment);
        self.observation.clear();
        Ok(true)
    }
    /// Makes another segment the current one.
    fn switch_segment(&mut self, number: usize, segment: ConversationSegment<'a>) {
        let Some(kept) = self.program.as_mut() else { return };
        let before = std::mem::replace(&mut self.segment, segment);
        if let Some(was) = kept.current.replace(number) {
            kept.other_segments.push((was, before));
            if self.sequence.is_some() && kept.decoding.is_none() {
                kept.decoding = Some(was);
            }
            kept.switches += 1;
        }
    }
    /// Sends the tokens of the sampled turn to the episode, if a program keeps the conversation.
    pub(super) fn send_turn_tokens(&mut self, state: &SequenceState) -> Result<()> {
        let Some(kept) = &self.program else { return Ok(()) };
        let first = state.token_ids.len() - state.sampled_in_turn().len();
        let (prompt, ids) = state.token_ids.split_at(first);
        let tokenizer = kept.chat.tokenizer();
        let texts = ids.iter().map(|id| tokenizer.decode(&[*id])).collect::<Result<Vec<String>>>()?;
        let logprobs = state.logprobs[first..].to_vec();
        let opened = tokenizer.decode(&prompt[prompt.len().saturating_sub(OPENING_TOKENS)..])?;
        let (prompt, ids) = (prompt.to_vec(), ids.to_vec());
        self.episode.record_tokens(TurnTokens { prompt, opened, ids, texts, logprobs, cut: self.truncated });
        Ok(())
    }
    /// Returns all segments in the order in which they began, and the counts of the program's requests.
    pub(super) fn segments(
        kept: Option<Box<ProgramSegments<'a>>>,
        here: ConversationSegment<'a>,
    ) -> (Vec<ConversationSegment<'a>>, ProgramCalls) {
        let Some(kept) = kept else { return (vec![here], ProgramCalls::default()) };
        let mut all = kept.other_segments;
        all.push((kept.current.unwrap_or(0), here));
        all.sort_by_key(|(number, _)| *number);
        (all.into_iter().map(|(_, segment)| segment).collect(), kept.counts)
    }
}

/// Counts tool results among messages.
fn results(messages: &[Message]) -> u32 {
    messages.iter().filter(|message| message.role == "tool").count() as u32
}

//! Requests of a program that keeps its conversation: which segment each continues, and the response to it.
//!
//! A request that continues a turn of any segment joins that segment, with the tokens sampled there. Any other request
//! begins a segment: the program rewrites its history or has a second conversation.

use super::kept::Kept;
use super::live::Live;
use super::segment::Segment;
use trainyard_core::{Error, Result};
use trainyard_envs::{Asked, TurnTokens};
use trainyard_learn::ProgramCalls;
use trainyard_lm::generate::SequenceState;
use trainyard_lm::template::Conversation;
use trainyard_tables::Message;

/// Length of a generation prompt's end, in tokens, that may open a thought.
const OPENING: usize = 32;

impl<'a> Live<'a> {
    /// Returns whether the sequence decodes a segment other than the current one.
    pub(super) fn has_left(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.left.is_some())
    }
    /// Moves the state of the sequence into the segment that it decoded.
    pub(super) fn keep(&mut self, state: SequenceState) {
        let left = self.kept.as_mut().and_then(|kept| {
            let number = kept.left.take()?;
            kept.others.iter_mut().find(|(other, _)| *other == number)
        });
        match left {
            Some((_, segment)) => segment.keep(state),
            None => self.here.keep(state),
        }
    }
    /// Continues the segment that a request belongs to and opens the next turn. Returns false if there is no room.
    pub(super) fn asked(&mut self, asked: Asked, most: usize) -> Result<bool> {
        let Some(kept) = self.kept.as_mut() else {
            return Err(Error::bug("a program asks where none keeps the conversation"));
        };
        kept.max_tokens = asked.max_tokens;
        let goes_on = |segment: &Segment<'_>| segment.goes_on(&asked.messages, asked.tools.as_deref());
        // The longest segment, so that a conversation continues rather than the one that it was branched from.
        let beside = kept.others.iter().enumerate().filter(|(_, (_, segment))| goes_on(segment));
        let beside = beside.max_by_key(|(_, (_, segment))| segment.known.len()).map(|(at, _)| at);
        let found = if goes_on(&self.here) { Some(None) } else { beside.map(Some) };
        let Some(place) = found else { return self.begin(&asked, most) };
        let segment = place.map_or(&self.here, |at| &kept.others[at].1);
        let known = segment.known.len();
        let mut next = segment.conversation.clone();
        let Some(went_on) = next.go_on(&asked.written[known..])? else { return self.begin(&asked, most) };
        if next.context().len() >= most {
            return Ok(false);
        }
        kept.counts.healed += u32::from(went_on.healed);
        if let Some(at) = place {
            let (number, segment) = kept.others.remove(at);
            self.swap(number, segment);
            self.observation.clear();
        } else {
            self.observation = went_on.tokens;
        }
        self.tool_calls += results(&asked.messages[known..]);
        self.here.conversation = next;
        self.here.known = asked.messages;
        Ok(true)
    }
    /// Begins a segment. Turns sampled in other segments are inserted as they were sampled, as input.
    fn begin(&mut self, asked: &Asked, most: usize) -> Result<bool> {
        let Some(kept) = self.kept.as_mut() else { return Ok(false) };
        let (mut repeats, mut told) = (false, Vec::with_capacity(asked.written.len()));
        for (message, written) in asked.messages.iter().zip(&asked.written) {
            let all = kept.others.iter().map(|(_, segment)| segment).chain([&self.here]);
            let sampled = all.filter_map(|segment| segment.sampled(message)).next_back();
            let sampled = sampled.filter(|_| message.role == "assistant");
            repeats |= sampled.is_some();
            told.push(sampled.unwrap_or(written).clone());
        }
        let mut conversation = Conversation::new(kept.chat, asked.tools.as_deref());
        conversation.extend(&kept.chat.escaped(&told))?;
        conversation.open_first_turn()?;
        if conversation.context().len() >= most {
            return Ok(false);
        }
        let new = kept.counts.segments as usize;
        kept.counts.segments += 1;
        kept.counts.forked += u32::from(repeats);
        let (known, prompt) = (asked.messages.clone(), asked.messages.len());
        let segment = Segment { known, prompt, ..Segment::new(conversation) };
        if new == 0 {
            self.tool_calls += results(&asked.messages);
        }
        self.swap(new, segment);
        self.observation.clear();
        Ok(true)
    }
    /// Makes another segment the current one.
    fn swap(&mut self, number: usize, segment: Segment<'a>) {
        let Some(kept) = self.kept.as_mut() else { return };
        let before = std::mem::replace(&mut self.here, segment);
        if let Some(was) = kept.here.replace(number) {
            kept.others.push((was, before));
            if self.sequence.is_some() && kept.left.is_none() {
                kept.left = Some(was);
            }
            kept.switches += 1;
        }
    }
    /// Sends the tokens of the sampled turn to the episode, if a program keeps the conversation.
    pub(super) fn tell(&mut self, state: &SequenceState) -> Result<()> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let first = state.token_ids.len() - state.sampled_in_turn().len();
        let (prompt, ids) = state.token_ids.split_at(first);
        let tokenizer = kept.chat.tokenizer();
        let texts = ids.iter().map(|id| tokenizer.decode(&[*id])).collect::<Result<Vec<String>>>()?;
        let logprobs = state.logprobs[first..].to_vec();
        let opened = tokenizer.decode(&prompt[prompt.len().saturating_sub(OPENING)..])?;
        let (prompt, ids) = (prompt.to_vec(), ids.to_vec());
        self.episode.hear(TurnTokens { prompt, opened, ids, texts, logprobs, cut: self.cut });
        Ok(())
    }
    /// Returns all segments in the order in which they began, and the counts of the program's requests.
    pub(super) fn segments(kept: Option<Box<Kept<'a>>>, here: Segment<'a>) -> (Vec<Segment<'a>>, ProgramCalls) {
        let Some(kept) = kept else { return (vec![here], ProgramCalls::default()) };
        let mut all = kept.others;
        all.push((kept.here.unwrap_or(0), here));
        all.sort_by_key(|(number, _)| *number);
        (all.into_iter().map(|(_, segment)| segment).collect(), kept.counts)
    }
}

/// Counts tool results among messages.
fn results(messages: &[Message]) -> u32 {
    messages.iter().filter(|message| message.role == "tool").count() as u32
}

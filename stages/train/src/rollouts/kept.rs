//! What an episode has beside the segment that goes on, where a program keeps the conversation.
//!
//! Only one sequence is decoded at a time; a segment that is taken up again is read anew.

use super::job::{Job, Start};
use super::segment::Segment;
use trainyard_core::{Error, Result};
use trainyard_learn::ProgramCalls;
use trainyard_lm::template::Chat;

/// What an episode of a program has beside the segment that goes on.
pub struct Kept<'a> {
    pub(super) chat: &'a Chat,
    /// The other segments by their number.
    pub(super) others: Vec<(usize, Segment<'a>)>,
    /// Number of the segment that goes on; none before the first call.
    pub(super) here: Option<usize>,
    /// The segment whose sequence is still decoding; none if it is the one that goes on.
    pub(super) left: Option<usize>,
    /// How often the sequence changed because another segment went on.
    pub(super) switches: usize,
    /// Most tokens of the open turn.
    pub(super) max_tokens: Option<usize>,
    pub(super) counts: ProgramCalls,
}

impl<'a> Kept<'a> {
    /// Errors (kind invalid): a job that begins with words of others.
    pub fn new(chat: &'a Chat, job: &Job) -> Result<Self> {
        if job.start != Start::Root || !job.scaffold.is_empty() {
            return Err(Error::invalid("an episode of a program cannot begin with given turns, hints or rubrics")
                .help("use a strategy that samples whole episodes, such as `independent`"));
        }
        let (others, counts) = (Vec::new(), ProgramCalls::default());
        Ok(Self { chat, others, here: None, left: None, switches: 0, max_tokens: None, counts })
    }
    /// Turns of the other segments.
    pub fn turns(&self) -> usize {
        self.others.iter().map(|(_, segment)| segment.turns.len()).sum()
    }
}

//! Holds the state of a program's episode in addition to its current segment.
//!
//! Only one sequence is decoded at a time, and a resumed segment is prefilled again.

use super::job::{EpisodeJob, EpisodeStart};
use super::segment::ConversationSegment;
use trainyard_core::{Error, Result};
use trainyard_learn::ProgramCalls;
use trainyard_lm::template::ChatEncoder;
use trainyard_tables::TurnForm;

/// Number of tokens at the end of a generation prompt that may open a thought.
const OPENING_TOKENS: usize = 32;

/// State of a program's episode in addition to its current segment.
pub struct ProgramSegments<'a> {
    pub(super) chat: &'a ChatEncoder,
    /// Other segments by number.
    pub(super) other_segments: Vec<(usize, ConversationSegment<'a>)>,
    /// Number of the current segment; `None` before the first request.
    pub(super) current: Option<usize>,
    /// Number of the segment whose sequence is still decoding; `None` if it is the current one.
    pub(super) decoding: Option<usize>,
    /// Number of sequence changes caused by switching segments.
    pub(super) switches: usize,
    /// Token limit of the open turn.
    pub(super) max_tokens: Option<usize>,
    /// Form of the open turn.
    pub(super) form: Option<TurnForm>,
    /// Whether the sampler can give turns a form.
    pub(super) supports_forms: bool,
    pub(super) counts: ProgramCalls,
}

impl<'a> ProgramSegments<'a> {
    /// Creates the state before the first request. Errors: invalid, for a job with given turns or a scaffold.
    pub fn new(chat: &'a ChatEncoder, job: &EpisodeJob) -> Result<Self> {
        if job.start != EpisodeStart::Root || !job.scaffold.is_empty() {
            return Err(Error::invalid("an episode of a program cannot begin with given turns, hints or rubrics")
                .help("use a strategy that samples whole episodes, such as `independent`"));
        }
        let (others, counts) = (Vec::new(), ProgramCalls::default());
        Ok(Self {
            chat,
            other_segments: others,
            current: None,
            decoding: None,
            switches: 0,
            max_tokens: None,
            form: None,
            supports_forms: false,
            counts,
        })
    }
    /// Returns the text at the end of a prompt, which may open a thought.
    pub fn prompt_end(&self, prompt: &[u32]) -> Result<String> {
        self.chat.tokenizer().decode(&prompt[prompt.len().saturating_sub(OPENING_TOKENS)..])
    }
    /// Counts the turns of the other segments.
    pub fn turns(&self) -> usize {
        self.other_segments.iter().map(|(_, segment)| segment.turns.len()).sum()
    }
}

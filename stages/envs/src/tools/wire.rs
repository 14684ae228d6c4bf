//! Encodes the frames between a pool and its workers: a `u32` length, then fields in little-endian order, up to 256
//! MiB.
//!
//! The first frame contains the limits and the setup (`hello`). Each later request frame is a batch of
//! jobs. A worker reads a whole batch before it starts, so the two sides never write at the same time. Replies are in
//! call order, several to a frame. The format is binary because a call takes tens of microseconds, of which JSON would
//! be a large part.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Maximum bytes of a frame.
pub const MAX_FRAME: u32 = 256 << 20;

/// Recipe to rebuild a session: a snapshot, then the calls that followed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionRecipe {
    pub snapshot: Option<Arc<[u8]>>,
    pub history: Vec<PastCall>,
}

/// A completed call of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCall {
    pub code: Arc<str>,
    /// Digest of the text of the result, which is compared with that of a repetition.
    pub result_digest: u64,
}

/// Returns a digest of a result's text. The digest is the same in all processes of one build of this program.
pub fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolWorkerJob {
    Close {
        session: u64,
    },
    /// Rebuilds a session; an empty recipe opens a fresh one.
    Open {
        session: u64,
        recipe: SessionRecipe,
    },
    Call {
        session: u64,
        code: Arc<str>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    Succeeded,
    Failed,
    /// The call hit the wall-clock limit, and the worker dropped the session.
    TimedOut,
    /// The interpreter panicked or its process ended, and the worker dropped the session.
    Panicked,
    /// The worker does not hold this session, because it was dropped or its recipe failed.
    Missing,
    /// The session cannot be rebuilt; the text of the reply is the reason.
    Broken,
}

/// Reply to one `Call`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolWorkerReply {
    pub status: CallStatus,
    pub text: String,
    /// Nanoseconds spent in the program.
    pub cost: u64,
    /// Snapshot of the session after this call, if replaying the session would take longer.
    pub snapshot: Option<Vec<u8>>,
}

impl ToolWorkerReply {
    /// Returns an empty reply to a call after which the worker does not hold the session.
    pub fn without_session(status: CallStatus) -> Self {
        Self { status, text: String::new(), cost: 0, snapshot: None }
    }
}

/// Writes one frame and flushes. Fails without writing if the payload exceeds [`MAX_FRAME`].
pub fn write_frame(to: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).ok().filter(|l| *l <= MAX_FRAME);
    let length =
        length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "frame exceeds the limit of 256 MiB"))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(payload)?;
    to.flush()
}

/// Reads one frame; returns `None` if the stream ends within or before the length of a frame.
pub fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let length = u32::from_le_bytes(length);
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame exceeds the limit of 256 MiB"));
    }
    let mut payload = vec![0; length as usize];
    from.read_exact(&mut payload)?;
    Ok(Some(payload))
}

/// Payload of a frame that is being written.
#[derive(Default)]
pub(super) struct FrameWriter(pub(super) Vec<u8>);

impl FrameWriter {
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(super) fn long(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn bytes(&mut self, value: &[u8]) {
        self.long(value.len() as u64);
        self.0.extend_from_slice(value);
    }
    pub(super) fn optional(&mut self, value: Option<&[u8]>) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            self.bytes(value);
        }
    }
}

/// Unread rest of a payload.
pub(super) struct FrameReader<'a>(pub(super) &'a [u8]);

impl<'a> FrameReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }
    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    pub(super) fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.long()?).ok()?;
        self.take(length)
    }
    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
    pub(super) fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(self.bytes()?)),
            _ => None,
        }
    }
}

pub fn encode_jobs(jobs: &[ToolWorkerJob]) -> Vec<u8> {
    let mut out = FrameWriter::default();
    out.long(jobs.len() as u64);
    for job in jobs {
        match job {
            ToolWorkerJob::Close { session } => {
                out.byte(0);
                out.long(*session);
            }
            ToolWorkerJob::Open { session, recipe } => {
                out.byte(1);
                out.long(*session);
                out.optional(recipe.snapshot.as_deref());
                out.long(recipe.history.len() as u64);
                for past in &recipe.history {
                    out.bytes(past.code.as_bytes());
                    out.long(past.result_digest);
                }
            }
            ToolWorkerJob::Call { session, code } => {
                out.byte(2);
                out.long(*session);
                out.bytes(code.as_bytes());
            }
        }
    }
    out.0
}

/// Decodes jobs; `None` if the payload is not a batch of jobs.
pub fn decode_jobs(payload: &[u8]) -> Option<Vec<ToolWorkerJob>> {
    let mut from = FrameReader(payload);
    let mut jobs = Vec::new();
    for _ in 0..from.long()? {
        let (tag, session) = (from.byte()?, from.long()?);
        jobs.push(match tag {
            0 => ToolWorkerJob::Close { session },
            1 => {
                let snapshot = from.optional()?.map(Arc::from);
                let mut history = Vec::new();
                for _ in 0..from.long()? {
                    history.push(PastCall { code: Arc::from(from.text()?), result_digest: from.long()? });
                }
                ToolWorkerJob::Open { session, recipe: SessionRecipe { snapshot, history } }
            }
            2 => ToolWorkerJob::Call { session, code: Arc::from(from.text()?) },
            _ => return None,
        });
    }
    from.0.is_empty().then_some(jobs)
}

/// Appends one reply to a frame's payload, which may contain any number of replies.
pub fn encode_reply(reply: &ToolWorkerReply, payload: &mut Vec<u8>) {
    let mut out = FrameWriter(std::mem::take(payload));
    out.byte(match reply.status {
        CallStatus::Succeeded => 0,
        CallStatus::Failed => 1,
        CallStatus::TimedOut => 2,
        CallStatus::Panicked => 3,
        CallStatus::Missing => 4,
        CallStatus::Broken => 5,
    });
    out.long(reply.cost);
    out.bytes(reply.text.as_bytes());
    out.optional(reply.snapshot.as_deref());
    *payload = out.0;
}

/// Decodes replies; `None` if the payload is not a list of replies.
pub fn decode_replies(payload: &[u8]) -> Option<Vec<ToolWorkerReply>> {
    let mut from = FrameReader(payload);
    let mut replies = Vec::new();
    while !from.0.is_empty() {
        let status = match from.byte()? {
            0 => CallStatus::Succeeded,
            1 => CallStatus::Failed,
            2 => CallStatus::TimedOut,
            3 => CallStatus::Panicked,
            4 => CallStatus::Missing,
            5 => CallStatus::Broken,
            _ => return None,
        };
        let cost = from.long()?;
        let text = from.text()?.to_string();
        let snapshot = from.optional()?.map(<[u8]>::to_vec);
        replies.push(ToolWorkerReply { status, text, cost, snapshot });
    }
    Some(replies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jobs() -> Vec<ToolWorkerJob> {
        let recipe = SessionRecipe {
            snapshot: Some(Arc::from([1, 2, 3].as_slice())),
            history: vec![
                PastCall { code: Arc::from("x=1"), result_digest: 7 },
                PastCall { code: Arc::from("é"), result_digest: digest("é") },
            ],
        };
        vec![
            ToolWorkerJob::Open { session: 7, recipe },
            ToolWorkerJob::Open { session: 8, recipe: SessionRecipe::default() },
            ToolWorkerJob::Call { session: 7, code: Arc::from("x") },
            ToolWorkerJob::Close { session: 8 },
        ]
    }

    #[test]
    fn jobs_and_replies_round_trip() {
        assert_eq!(decode_jobs(&encode_jobs(&jobs())), Some(jobs()));
        let replies = vec![
            ToolWorkerReply { status: CallStatus::Succeeded, text: "1".to_string(), cost: 5, snapshot: None },
            ToolWorkerReply { status: CallStatus::Missing, text: String::new(), cost: 0, snapshot: Some(vec![9]) },
        ];
        let mut payload = Vec::new();
        for reply in &replies {
            encode_reply(reply, &mut payload);
        }
        assert_eq!(decode_replies(&payload), Some(replies));
    }

    #[test]
    fn frames_are_read_whole() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b"abc").unwrap();
        write_frame(&mut pipe, b"").unwrap();
        let mut from = pipe.as_slice();
        assert_eq!(read_frame(&mut from).unwrap().unwrap(), b"abc");
        assert_eq!(read_frame(&mut from).unwrap().unwrap(), b"");
        assert_eq!(read_frame(&mut from).unwrap(), None);
        assert!(read_frame(&mut &pipe[..5]).is_err());
        assert_eq!(read_frame(&mut [].as_slice()).unwrap(), None);
        assert!(read_frame(&mut [255u8; 8].as_slice()).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_rejected_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            cut in 0usize..60,
        ) {
            let _ = decode_jobs(&bytes);
            let _ = decode_replies(&bytes);
            let whole = encode_jobs(&jobs());
            if cut < whole.len() {
                prop_assert_eq!(decode_jobs(&whole[..cut]), None);
            }
        }
    }
}

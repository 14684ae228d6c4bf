//! Stores what remains to be written: frames on stacks, each stack once.

use super::grammar::NodeId;
use super::number::NumberState;
use super::text::TextState;
use std::collections::HashMap;

/// Number of a stack.
pub type StackId = u32;
/// The empty stack: nothing remains.
pub const EMPTY: StackId = 0;

/// Part of a text that remains to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frame {
    Node(NodeId),
    /// A literal from a byte on.
    Literal(NodeId, u32),
    /// A repetition after this many items.
    Repeat(NodeId, u32),
    Text(NodeId, TextState),
    Number(NodeId, NumberState),
    /// An object after these members, and this many members of any key.
    Members(NodeId, u128, u32),
    /// An array after this many items, not counted beyond what its rule bounds.
    Items(NodeId, u32),
}

#[derive(Debug, Clone, Copy)]
struct Stack {
    top: Frame,
    rest: StackId,
    /// Number of open objects and arrays.
    depth: u32,
}

/// All stacks so far; equal stacks have equal numbers.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    stacks: Vec<Stack>,
    known: HashMap<(Frame, StackId), StackId>,
}

impl Stacks {
    /// Returns the stack with a frame on top of another one.
    pub fn push(&mut self, top: Frame, rest: StackId) -> StackId {
        if let Some(id) = self.known.get(&(top, rest)) {
            return *id;
        }
        let opens = matches!(top, Frame::Members(..) | Frame::Items(..));
        let depth = self.depth(rest) + u32::from(opens);
        self.stacks.push(Stack { top, rest, depth });
        let id = self.stacks.len() as StackId;
        self.known.insert((top, rest), id);
        id
    }
    /// Returns the frame on top and the stack below it, or `None` for the empty stack.
    pub fn pop(&self, id: StackId) -> Option<(Frame, StackId)> {
        let stack = self.stacks.get((id as usize).checked_sub(1)?)?;
        Some((stack.top, stack.rest))
    }
    /// Returns the number of open objects and arrays.
    pub fn depth(&self, id: StackId) -> u32 {
        (id as usize).checked_sub(1).and_then(|at| self.stacks.get(at)).map_or(0, |stack| stack.depth)
    }
    /// Returns the frames of a stack, the top first.
    pub fn frames(&self, id: StackId) -> Vec<Frame> {
        let (mut frames, mut rest) = (Vec::new(), id);
        while let Some((frame, below)) = self.pop(rest) {
            frames.push(frame);
            rest = below;
        }
        frames
    }
    pub fn len(&self) -> usize {
        self.stacks.len()
    }
}

//! Recognizes the texts of a grammar byte by byte.
//!
//! A state is the set of stacks that the bytes so far may have left. States and their transitions are computed when
//! they are reached and kept, so a state that returns, such as the inside of a string, costs a table lookup per byte.

use super::frames::{EMPTY, Frame, StackId, Stacks};
use super::grammar::{ArrayRule, Grammar, Node, NodeId, ObjectRule};
use super::number::NumberState;
use super::text::TextState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of a state.
pub type StateId = u32;
/// The state without stacks: no text of the grammar begins like this.
pub const DEAD: StateId = 0;
/// A transition that was not computed.
const UNKNOWN: StateId = u32::MAX;
/// Nesting beyond which nodes that are part of themselves have no text. JSON readers accept at least 128 levels.
const MAX_DEPTH: u32 = 48;
/// Maximum stacks of a state; more alternatives are dropped, and the others stay valid.
const MAX_STACKS: usize = 512;
/// Maximum states and stacks in memory before old ones are dropped.
const MAX_STATES: usize = 4_096;

/// A recognizer with the states that it has computed.
#[derive(Debug, Clone)]
pub struct Recognizer {
    grammar: Arc<Grammar>,
    stacks: Stacks,
    /// Stacks of each state, sorted.
    states: Vec<Arc<[StackId]>>,
    known: HashMap<Arc<[StackId]>, StateId>,
    transitions: Vec<[StateId; 256]>,
    /// Stacks for which transitions were computed.
    work: u64,
}

impl Recognizer {
    /// Creates a recognizer, and returns it with its first state.
    pub fn new(grammar: Arc<Grammar>) -> (Self, StateId) {
        let start = grammar.start;
        let mut recognizer = Self {
            grammar,
            stacks: Stacks::default(),
            states: Vec::new(),
            known: HashMap::new(),
            transitions: Vec::new(),
            work: 0,
        };
        recognizer.intern(Vec::new());
        let stack = recognizer.stacks.push(Frame::Node(start), EMPTY);
        let state = recognizer.reach(vec![stack]);
        (recognizer, state)
    }
    /// Returns whether the text may end in a state.
    pub fn may_end(&self, state: StateId) -> bool {
        self.states[state as usize].first() == Some(&EMPTY)
    }
    /// Returns the state after a byte.
    pub fn step(&mut self, state: StateId, byte: u8) -> StateId {
        let known = self.transitions[state as usize][usize::from(byte)];
        if known != UNKNOWN {
            return known;
        }
        let stacks = self.states[state as usize].clone();
        self.work += stacks.len() as u64;
        let after: Vec<StackId> = stacks.iter().filter_map(|stack| self.consume(*stack, byte)).collect();
        let next = self.reach(after);
        self.transitions[state as usize][usize::from(byte)] = next;
        next
    }
    /// Returns the state after a text that the grammar requires literally, or `DEAD` if it does not.
    pub fn step_literal(&mut self, state: StateId, text: &[u8]) -> StateId {
        let mut stacks: Vec<StackId> = self.states[state as usize].to_vec();
        for byte in text {
            if stacks.is_empty() {
                return DEAD;
            }
            let mut after = Vec::new();
            for stack in stacks {
                if let Some((Frame::Literal(..), _)) = self.stacks.pop(stack)
                    && let Some(rest) = self.consume(stack, *byte)
                {
                    after.push(rest);
                }
            }
            let reached = self.reach(after);
            stacks = self.states[reached as usize].to_vec();
        }
        self.intern(stacks)
    }
    /// Returns the number of stacks for which transitions were computed so far.
    pub fn work(&self) -> u64 {
        self.work
    }
    /// Returns whether a single mask has computed so many states that it must not compute more than it needs.
    pub fn is_full(&self) -> bool {
        self.states.len() > 4 * MAX_STATES
    }
    /// Drops all states but one if there are too many. Returns the number of that state, if numbers have changed.
    pub fn trim(&mut self, state: StateId) -> Option<StateId> {
        if self.states.len() <= MAX_STATES && self.stacks.len() <= 8 * MAX_STATES {
            return None;
        }
        let frames: Vec<Vec<Frame>> =
            self.states[state as usize].iter().map(|stack| self.stacks.frames(*stack)).collect();
        let (mut fresh, _) = Self::new(self.grammar.clone());
        let rebuilt = frames
            .into_iter()
            .map(|frames| frames.into_iter().rev().fold(EMPTY, |rest, frame| fresh.stacks.push(frame, rest)));
        let rebuilt = rebuilt.collect();
        let state = fresh.intern(rebuilt);
        fresh.work = self.work;
        *self = fresh;
        Some(state)
    }
    /// Returns what remains of a stack after a byte, or `None` if its top does not accept the byte.
    fn consume(&mut self, stack: StackId, byte: u8) -> Option<StackId> {
        let (top, rest) = self.stacks.pop(stack)?;
        let grammar = self.grammar.clone();
        match top {
            Frame::Literal(id, at) => {
                let Node::Literal(text) = grammar.node(id) else { return None };
                let at = at as usize;
                match text.get(at) {
                    Some(expected) if *expected == byte && at + 1 == text.len() => Some(rest),
                    Some(expected) if *expected == byte => {
                        Some(self.stacks.push(Frame::Literal(id, at as u32 + 1), rest))
                    }
                    _ => None,
                }
            }
            Frame::Node(id) => match grammar.node(id) {
                Node::Byte(low, high) => (*low..=*high).contains(&byte).then_some(rest),
                _ => None,
            },
            Frame::Text(id, state) => {
                let Node::Text(rule) = grammar.node(id) else { return None };
                let state = rule.step(&state, byte)?;
                Some(self.stacks.push(Frame::Text(id, state), rest))
            }
            Frame::Number(id, state) => {
                let Node::Number(rule) = grammar.node(id) else { return None };
                let state = rule.step(&state, byte)?;
                Some(self.stacks.push(Frame::Number(id, state), rest))
            }
            Frame::Repeat(..) | Frame::Members(..) | Frame::Items(..) => None,
        }
    }
    /// Returns the state of these stacks and of those that they stand for.
    fn reach(&mut self, stacks: Vec<StackId>) -> StateId {
        let mut seen: HashSet<StackId> = HashSet::new();
        let (mut open, mut ready) = (stacks, Vec::new());
        open.reverse();
        while let Some(stack) = open.pop() {
            if !seen.insert(stack) || ready.len() >= MAX_STACKS {
                continue;
            }
            if self.expand(stack, &mut open) {
                ready.push(stack);
            }
        }
        self.intern(ready)
    }
    /// Adds the stacks that a stack stands for to `open`. Returns whether its top accepts bytes or it is empty.
    fn expand(&mut self, stack: StackId, open: &mut Vec<StackId>) -> bool {
        let Some((top, rest)) = self.stacks.pop(stack) else { return true };
        let grammar = self.grammar.clone();
        match top {
            Frame::Literal(..) => true,
            Frame::Node(id) => match grammar.node(id) {
                Node::Byte(..) => true,
                node => {
                    self.expand_node(id, node, rest, open);
                    false
                }
            },
            Frame::Repeat(id, done) => {
                let Node::Repeat { item, min, max } = grammar.node(id) else { return false };
                if done >= *min {
                    open.push(rest);
                }
                if done < *max {
                    let after = self.stacks.push(Frame::Repeat(id, done + 1), rest);
                    open.push(self.stacks.push(Frame::Node(*item), after));
                }
                false
            }
            Frame::Text(id, state) => {
                if let Node::Text(rule) = grammar.node(id)
                    && rule.may_end(&state)
                {
                    open.push(rest);
                }
                true
            }
            Frame::Number(id, state) => {
                if let Node::Number(rule) = grammar.node(id)
                    && rule.may_end(&state)
                {
                    open.push(rest);
                }
                true
            }
            Frame::Members(id, present, free) => {
                if let Node::Object(rule) = grammar.node(id) {
                    self.expand_members(id, rule, (present, free), rest, open);
                }
                false
            }
            Frame::Items(id, count) => {
                if let Node::Array(rule) = grammar.node(id) {
                    self.expand_items(id, rule, count, rest, open);
                }
                false
            }
        }
    }
    fn expand_node(&mut self, id: NodeId, node: &Node, rest: StackId, open: &mut Vec<StackId>) {
        let next = match node {
            Node::Literal(_) => self.stacks.push(Frame::Literal(id, 0), rest),
            Node::Sequence(parts) => self.push_all(parts, rest),
            Node::Choice(parts) => {
                for part in parts.iter().rev() {
                    open.push(self.stacks.push(Frame::Node(*part), rest));
                }
                return;
            }
            Node::Repeat { .. } => self.stacks.push(Frame::Repeat(id, 0), rest),
            Node::Text(_) => self.stacks.push(Frame::Text(id, TextState::START), rest),
            Node::Number(_) => self.stacks.push(Frame::Number(id, NumberState::Start), rest),
            Node::Object(_) => self.stacks.push(Frame::Members(id, 0, 0), rest),
            Node::Array(_) => self.stacks.push(Frame::Items(id, 0), rest),
            Node::Recursive(inner) if self.stacks.depth(rest) < MAX_DEPTH => {
                self.stacks.push(Frame::Node(*inner), rest)
            }
            Node::Recursive(_) | Node::Byte(..) => return,
        };
        open.push(next);
    }
    fn expand_members(
        &mut self,
        id: NodeId,
        rule: &ObjectRule,
        (present, free): (u128, u32),
        rest: StackId,
        open: &mut Vec<StackId>,
    ) {
        let syntax = self.grammar.syntax;
        if rule.required & !present == 0 {
            open.push(self.stacks.push(Frame::Node(syntax.close_object), rest));
        }
        let separator = if present == 0 && free == 0 { syntax.space } else { syntax.comma };
        let missing = rule.members.iter().enumerate().filter(|(i, _)| present & (1 << i) == 0);
        for (i, member) in missing {
            let after = self.stacks.push(Frame::Members(id, present | (1 << i), free), rest);
            open.push(self.push_all(&[separator, *member], after));
        }
        if let Some(member) = rule.free.filter(|_| free < rule.max_free) {
            // A number of members without a bound is not counted.
            let count = if rule.max_free == u32::MAX { 1 } else { free + 1 };
            let after = self.stacks.push(Frame::Members(id, present, count), rest);
            open.push(self.push_all(&[separator, member], after));
        }
    }
    fn expand_items(&mut self, id: NodeId, rule: &ArrayRule, count: u32, rest: StackId, open: &mut Vec<StackId>) {
        let syntax = self.grammar.syntax;
        if count >= rule.min {
            open.push(self.stacks.push(Frame::Node(syntax.close_array), rest));
        }
        let item = rule.prefix.get(count as usize).copied().or(rule.item);
        if let Some(item) = item.filter(|_| count < rule.max) {
            let separator = if count == 0 { syntax.space } else { syntax.comma };
            let counted = rule.max != u32::MAX || count < rule.min.max(rule.prefix.len() as u32).max(1);
            let after = self.stacks.push(Frame::Items(id, if counted { count + 1 } else { count }), rest);
            open.push(self.push_all(&[separator, item], after));
        }
    }
    fn push_all(&mut self, parts: &[NodeId], rest: StackId) -> StackId {
        parts.iter().rev().fold(rest, |rest, part| self.stacks.push(Frame::Node(*part), rest))
    }
    fn intern(&mut self, mut stacks: Vec<StackId>) -> StateId {
        stacks.sort_unstable();
        stacks.dedup();
        let stacks: Arc<[StackId]> = stacks.into();
        if let Some(id) = self.known.get(&stacks) {
            return *id;
        }
        let id = self.states.len() as StateId;
        self.transitions.push([if stacks.is_empty() { DEAD } else { UNKNOWN }; 256]);
        self.states.push(stacks.clone());
        self.known.insert(stacks, id);
        id
    }
}

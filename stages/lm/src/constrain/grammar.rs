//! Builds grammars: sets of texts, as nodes that refer to each other.

use super::number::NumberRule;
use super::text::TextRule;

/// Number of a node in its grammar.
pub type NodeId = u32;
/// Maximum nodes of a grammar.
const MAX_NODES: usize = 50_000;

/// A set of texts.
#[derive(Debug, Clone)]
pub enum Node {
    /// One text.
    Literal(Vec<u8>),
    /// The texts of several nodes, one after the other.
    Sequence(Vec<NodeId>),
    /// The texts of any of several nodes.
    Choice(Vec<NodeId>),
    /// Texts of one node, `min` to `max` times. The node has no empty text.
    Repeat {
        item: NodeId,
        min: u32,
        max: u32,
    },
    /// One byte of a range.
    Byte(u8, u8),
    /// Free text.
    Text(TextRule),
    Number(NumberRule),
    Object(ObjectRule),
    Array(ArrayRule),
    /// A node that is part of itself. Beyond a maximum of nested values it has no text.
    Recursive(NodeId),
}

/// An object, whose members may have any order.
#[derive(Debug, Clone)]
pub struct ObjectRule {
    /// Named members, each with its key.
    pub members: Vec<NodeId>,
    /// Members that must be present, as bits.
    pub required: u128,
    /// Member with any key, for objects without named members.
    pub free: Option<NodeId>,
    /// Maximum members of any key.
    pub max_free: u32,
}

/// An array.
#[derive(Debug, Clone)]
pub struct ArrayRule {
    /// First items.
    pub prefix: Vec<NodeId>,
    /// Items after the first ones.
    pub item: Option<NodeId>,
    pub min: u32,
    pub max: u32,
}

/// A complete grammar.
#[derive(Debug, Clone)]
pub struct Grammar {
    pub(super) nodes: Vec<Node>,
    pub(super) start: NodeId,
    pub(super) syntax: Syntax,
}

/// Nodes of JSON's punctuation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syntax {
    pub space: NodeId,
    pub comma: NodeId,
    pub close_object: NodeId,
    pub close_array: NodeId,
}

/// Builder of a grammar.
#[derive(Debug)]
pub struct GrammarBuilder {
    nodes: Vec<Node>,
    syntax: Syntax,
    /// Texts that free text must not contain.
    excluded: Vec<&'static str>,
}

impl GrammarBuilder {
    /// Creates a builder. Free text of its grammar contains none of `excluded`, in which a first character does not
    /// occur again.
    pub fn new(excluded: &[&'static str]) -> Self {
        let syntax = Syntax { space: 0, comma: 0, close_object: 0, close_array: 0 };
        let mut builder = Self { nodes: Vec::new(), syntax, excluded: excluded.to_vec() };
        let line = builder.literal("\n");
        let blank = builder.literal(" ");
        let indent = builder.repeat(blank, 0, 32);
        let break_line = builder.sequence(&[line, indent]);
        let nothing = builder.sequence(&[]);
        let space = builder.choice(&[nothing, blank, break_line]);
        let after = |builder: &mut Self, text: &str| {
            let text = builder.literal(text);
            builder.sequence(&[text, space])
        };
        let comma = after(&mut builder, ",");
        let [object, array] = ["}", "]"].map(|text| builder.literal(text));
        let [close_object, close_array] = [object, array].map(|close| builder.sequence(&[space, close]));
        builder.syntax = Syntax { space, comma, close_object, close_array };
        builder
    }
    /// Adds one text.
    pub fn literal(&mut self, text: &str) -> NodeId {
        if text.is_empty() { self.sequence(&[]) } else { self.add(Node::Literal(text.as_bytes().to_vec())) }
    }
    /// Adds the texts of several nodes, one after the other.
    pub fn sequence(&mut self, parts: &[NodeId]) -> NodeId {
        self.add(Node::Sequence(parts.to_vec()))
    }
    /// Adds the texts of any of several nodes.
    pub fn choice(&mut self, parts: &[NodeId]) -> NodeId {
        match parts {
            [one] => *one,
            parts => self.add(Node::Choice(parts.to_vec())),
        }
    }
    /// Adds the texts of a node without empty text, `min` to `max` times.
    pub fn repeat(&mut self, item: NodeId, min: u32, max: u32) -> NodeId {
        self.add(Node::Repeat { item, min, max })
    }
    /// Adds any text that does not contain `end`, followed by `end` and white space.
    pub fn text_until(&mut self, end: &'static str) -> NodeId {
        let text = self.add(Node::Text(TextRule::raw(&[end])));
        let close = self.literal(end);
        let line = self.literal("\n");
        let lines = self.repeat(line, 0, 2);
        self.sequence(&[text, close, lines])
    }
    /// Returns the grammar of the texts of `start`.
    pub fn build(self, start: NodeId) -> Grammar {
        Grammar { nodes: self.nodes, start, syntax: self.syntax }
    }
    pub(super) fn byte(&mut self, low: u8, high: u8) -> NodeId {
        self.add(Node::Byte(low, high))
    }
    pub(super) fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        (self.nodes.len() - 1) as NodeId
    }
    /// Replaces a node, for one that is part of itself.
    pub(super) fn set(&mut self, id: NodeId, node: Node) {
        if let Some(place) = self.nodes.get_mut(id as usize) {
            *place = node;
        }
    }
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() > MAX_NODES
    }
    /// Adds the characters of a JSON string, without its quotation marks.
    pub(super) fn characters(&mut self, min: u32, max: Option<u32>) -> NodeId {
        let rule = TextRule::json(&self.excluded, min, max);
        self.add(Node::Text(rule))
    }
    /// Adds a JSON string.
    pub(super) fn string(&mut self, min: u32, max: Option<u32>) -> NodeId {
        let quote = self.literal("\"");
        let characters = self.characters(min, max);
        self.sequence(&[quote, characters, quote])
    }
    /// Adds a member of an object.
    pub(super) fn member(&mut self, key: NodeId, value: NodeId) -> NodeId {
        let colon = self.literal(":");
        self.sequence(&[key, colon, self.syntax.space, value])
    }
}

impl Grammar {
    /// Returns the texts that the grammar requires literally.
    pub(super) fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Literal(text) => Some(text.as_slice()),
            _ => None,
        })
    }
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }
}

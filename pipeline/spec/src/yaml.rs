//! Parses YAML text to a [`YamlNode`] tree in one pass. No other module uses the YAML crate.
//!
//! The dialect is YAML 1.2 core in one document, without tags, merge keys and directives. Keys are unique scalars. The
//! limits ([`MAX_BYTES`], [`MAX_DEPTH`], [`MAX_NODES`], [`MAX_ALIASES`], [`MAX_ALIAS_NODES`]) reject files that were
//! built to exhaust memory.

mod advice;

use crate::diagnostic::{Diagnostic, Sources, Span};
use crate::tree::{YamlContent, YamlEntry, YamlNode, YamlScalar, shorten};
use advice::{Advice, advise};
use serde_yaml::granit_parser::{self, Event, Parser, ScalarStyle};
use std::collections::HashMap;

/// Maximum number of bytes of a file.
pub const MAX_BYTES: usize = 16 << 20;
/// Maximum number of levels of nested lists and maps.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of scalars, lists and maps, including those expanded from aliases.
pub const MAX_NODES: usize = 2_000_000;
/// Maximum number of uses of anchors.
pub const MAX_ALIASES: usize = 1_000;
/// Maximum number of nodes that are kept or repeated for anchors and aliases.
pub const MAX_ALIAS_NODES: usize = 100_000;

/// Parses the text that `sources` holds as `file`. With errors in the list, the tree is the readable part, or `None`.
pub fn read(sources: &Sources, file: u32) -> (Option<YamlNode>, Vec<Diagnostic>) {
    let text = sources.get(file).map_or("", |s| s.text.as_str());
    let mut builder = TreeBuilder::new(text, file);
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, the limit is {MAX_BYTES}", text.len());
        builder.report(
            "yaml-limit",
            Span { end: 0, ..builder.document_span() },
            message,
            "split it with `uses: ./part.yaml`",
        );
        return (None, builder.diagnostics);
    }
    builder.run();
    (builder.root, builder.diagnostics)
}

/// A list or map that is still open.
enum OpenNode {
    List { start: Span, items: Vec<YamlNode> },
    Map { start: Span, entries: Vec<YamlEntry>, seen: KeyIndex, key: Option<(String, Span)> },
}

/// Positions of the keys of an open map. Most maps have few keys, so only long maps get an index.
#[derive(Default)]
struct KeyIndex(HashMap<String, Span>);

impl KeyIndex {
    const LINEAR_SEARCH_LIMIT: usize = 16;

    fn find(&self, entries: &[YamlEntry], key: &str) -> Option<Span> {
        match entries.len() {
            0..=Self::LINEAR_SEARCH_LIMIT => entries.iter().find(|e| e.key == key).map(|e| e.key_span),
            _ => self.0.get(key).copied(),
        }
    }
    /// Adds entries; must be called for every entry.
    fn add(&mut self, entries: &[YamlEntry]) {
        let new = match entries.len() {
            0..=Self::LINEAR_SEARCH_LIMIT => &[],
            n if n == Self::LINEAR_SEARCH_LIMIT + 1 => entries,
            n => &entries[n - 1..],
        };
        self.0.extend(new.iter().map(|e| (e.key.clone(), e.key_span)));
    }
}

struct NodeFrame {
    open: OpenNode,
    anchor: usize,
    /// Number of nodes and height so far, for anchors.
    size: usize,
    height: usize,
}

struct AnchoredNode {
    node: YamlNode,
    size: usize,
    height: usize,
}

struct TreeBuilder<'a> {
    text: &'a str,
    file: u32,
    stack: Vec<NodeFrame>,
    anchors: HashMap<usize, AnchoredNode>,
    root: Option<YamlNode>,
    documents: usize,
    nodes: usize,
    aliases: usize,
    replayed: usize,
    /// Whether a limit was exceeded; reading stops.
    stopped: bool,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> TreeBuilder<'a> {
    fn new(text: &'a str, file: u32) -> Self {
        Self {
            text,
            file,
            stack: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            documents: 0,
            nodes: 0,
            aliases: 0,
            replayed: 0,
            stopped: false,
            diagnostics: Vec::new(),
        }
    }

    fn run(&mut self) {
        if let Some(at) = find_lone_cr(self.text) {
            let place = self.place_of(at);
            let message = "a carriage return without a line feed";
            return self.report(
                "yaml-syntax",
                place,
                message,
                "save the file with the line breaks of Unix or of Windows",
            );
        }
        let options =
            granit_parser::options! { disallow_directives: true, emit_comments: false, emit_unresolved_aliases: true };
        for next in Parser::new_from_str_with_options(self.text, options) {
            match next {
                Ok((event, span)) => {
                    let place = self.span(&span);
                    self.event(event, place, span.tag_start.is_some());
                }
                Err(error) => {
                    let place = self.marker(error.marker());
                    self.syntax(place, &error.info().to_string());
                    self.root = None;
                    return;
                }
            }
            if self.stopped {
                self.root = None;
                return;
            }
        }
        if self.root.is_none() && self.diagnostics.is_empty() {
            self.report(
                "yaml-empty",
                Span { end: 0, ..self.document_span() },
                "the file is empty",
                "start with `version: 1`, `name:` and `stages:`",
            );
        }
    }

    /// Reports a syntax error at the mistake, which may be before the position where the parser noticed it.
    fn syntax(&mut self, place: Span, info: &str) {
        let Advice { at, message, help } = advise(self.text, place.start as usize, info);
        let place = if at == place.start as usize { place } else { self.place_of(at) };
        self.diagnostics.push(Diagnostic::error("yaml-syntax", place, message).help_if(help));
    }

    /// Returns the position of a byte.
    fn place_of(&self, at: usize) -> Span {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Span {
            file: self.file,
            start: at as u32,
            end: at as u32,
            line: before.bytes().filter(|b| *b == b'\n').count() as u32 + 1,
            column: before[line_start..].chars().count() as u32 + 1,
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span, tagged: bool) {
        if tagged {
            self.report("yaml-tag", span, "tags are not supported", "write the value without `!`");
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents == 2 {
                    self.report("yaml-documents", span, "a second document starts here", "keep one document in a file");
                    self.stopped = true;
                }
            }
            Event::Scalar(text, style, anchor, _) => self.scalar(&text, style, anchor, span),
            Event::SequenceStart(_, anchor, _) => {
                self.open(OpenNode::List { start: span, items: Vec::new() }, anchor, span)
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(
                    OpenNode::Map { start: span, entries: Vec::new(), seen: KeyIndex::default(), key: None },
                    anchor,
                    span,
                );
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => self.alias(id, span),
            Event::UnresolvedAlias(name) => {
                self.report(
                    "yaml-alias",
                    span,
                    format!("no anchor `&{name}` is defined before this alias"),
                    "define the anchor first",
                );
                self.place(null(span), 0, 1, 1);
            }
            _ => {}
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, span: Span) {
        let plain = matches!(style, ScalarStyle::Plain);
        if plain && let Some(inside) = typographic(text) {
            let message = format!("the quotes of `{}` are typographic, which YAML reads as letters", shorten(text));
            let d = Diagnostic::warning("yaml-quotes", span, message);
            self.diagnostics.push(d.help(format!("write straight quotes: \"{inside}\"")));
        }
        let node = YamlNode { span, content: YamlContent::Scalar(YamlScalar { text: text.to_string(), plain }) };
        self.count(1, span);
        self.place(node, anchor, 1, 1);
    }

    fn open(&mut self, open: OpenNode, anchor: usize, span: Span) {
        self.count(1, span);
        if self.stack.len() >= MAX_DEPTH {
            self.limit(span, format!("lists and maps nest deeper than {MAX_DEPTH} here"));
        }
        self.stack.push(NodeFrame { open, anchor, size: 1, height: 1 });
    }

    fn close(&mut self, end: Span) {
        let Some(frame) = self.stack.pop() else { return };
        // A block collection's end marker is after it, at the next token; the collection's span ends with its last
        // child.
        let reach = |start: Span, last: Option<Span>| {
            let inside = last.map_or(start.end, |l| l.end);
            let flow = self.text.as_bytes().get(start.start as usize).is_some_and(|b| matches!(b, b'[' | b'{'));
            Span { end: if flow { end.end.max(inside) } else { inside }, ..start }
        };
        // A tree of 100,000 stages takes much memory, and spare capacity would be half of it.
        let (span, content) = match frame.open {
            OpenNode::List { start, mut items } => {
                items.shrink_to_fit();
                (reach(start, items.last().map(|n| n.span)), YamlContent::List(items))
            }
            OpenNode::Map { start, mut entries, .. } => {
                entries.shrink_to_fit();
                let first =
                    entries.first().map_or(start, |e| if e.key_span.start < start.start { e.key_span } else { start });
                (reach(first, entries.last().map(|e| e.value.span)), YamlContent::Map(entries))
            }
        };
        self.place(YamlNode { span, content }, frame.anchor, frame.size, frame.height);
    }

    fn alias(&mut self, id: usize, span: Span) {
        self.aliases += 1;
        if self.aliases > MAX_ALIASES {
            return self.limit(span, format!("the file uses more than {MAX_ALIASES} aliases"));
        }
        let Some(AnchoredNode { node, size, height }) = self.anchors.get(&id) else {
            self.report("yaml-alias", span, "this alias is inside its own anchor", "a value cannot contain itself");
            return self.place(null(span), 0, 1, 1);
        };
        let (size, height) = (*size, *height);
        self.replayed += size;
        if self.replayed > MAX_ALIAS_NODES {
            return self.limit(span, format!("the aliases expand to more than {MAX_ALIAS_NODES} nodes"));
        }
        if self.stack.len() + height > MAX_DEPTH + 1 {
            return self.limit(span, format!("with this alias, lists and maps nest deeper than {MAX_DEPTH}"));
        }
        let node = node.clone();
        self.count(size, span);
        self.place(node, 0, size, height);
    }

    /// Stores a finished node: as a key, a value, an item, or the root.
    fn place(&mut self, node: YamlNode, anchor: usize, size: usize, height: usize) {
        if anchor != 0 && !self.stopped {
            self.anchors.insert(anchor, AnchoredNode { node: node.clone(), size, height });
            // The copy counts as replayed: nested anchors would otherwise multiply memory.
            self.replayed += if matches!(node.content, YamlContent::Scalar(_)) { 0 } else { size };
            if self.replayed > MAX_ALIAS_NODES {
                self.limit(node.span, format!("anchors and aliases expand to more than {MAX_ALIAS_NODES} nodes"));
            }
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.size += size;
        frame.height = frame.height.max(height + 1);
        match &mut frame.open {
            OpenNode::List { items, .. } => items.push(node),
            OpenNode::Map { entries, seen, key, .. } => match key.take() {
                None => match key_text(&node) {
                    Ok(text) => *key = Some((text, node.span)),
                    Err(message) => {
                        *key = Some((String::new(), node.span));
                        let doubled = self.text[..node.span.start as usize].ends_with('{') && node.map().is_some();
                        let help = doubled.then(|| "an expression is written `${{ … }}`, with a `$` in front".into());
                        self.diagnostics.push(Diagnostic::error("yaml-key", node.span, message).help_if(help));
                    }
                },
                Some((text, key_span)) => match seen.find(entries, &text) {
                    Some(first) => {
                        let d = Diagnostic::error("duplicate-key", key_span, format!("the key `{text}` occurs twice"));
                        self.diagnostics.push(d.help("remove one of them").related(first, "the first one is here"));
                    }
                    None => {
                        entries.push(YamlEntry { key: text, key_span, value: node });
                        seen.add(entries);
                    }
                },
            },
        }
    }

    fn count(&mut self, nodes: usize, span: Span) {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            self.limit(span, format!("the file has more than {MAX_NODES} nodes"));
        }
    }
    fn limit(&mut self, span: Span, message: String) {
        if !self.stopped {
            self.report(
                "yaml-limit",
                span,
                message,
                "write the file without so much repetition; `matrix` repeats stages",
            );
        }
        self.stopped = true;
    }
    fn report(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: &str) {
        self.diagnostics.push(Diagnostic::error(code, span, message).help(help));
    }
    fn document_span(&self) -> Span {
        Span { file: self.file, start: 0, end: self.text.len() as u32, line: 1, column: 1 }
    }
    fn span(&self, span: &granit_parser::Span) -> Span {
        let start = self.marker(&span.start);
        let end = span.end.byte_offset().unwrap_or(0).min(self.text.len()) as u32;
        Span { end: end.max(start.start), ..start }
    }
    fn marker(&self, marker: &granit_parser::Marker) -> Span {
        let at = marker.byte_offset().unwrap_or(0).min(self.text.len()) as u32;
        Span { file: self.file, start: at, end: at, line: marker.line().max(1) as u32, column: marker.col() as u32 + 1 }
    }
}

/// Finds the first carriage return that is not part of a Windows line break. YAML would end a line there, and editors
/// would disagree about all later line numbers.
fn find_lone_cr(text: &str) -> Option<usize> {
    text.match_indices('\r').map(|(at, _)| at).find(|at| text.as_bytes().get(at + 1) != Some(&b'\n'))
}

/// Returns the text between typographic quotes.
fn typographic(text: &str) -> Option<&str> {
    let opened = text.strip_prefix(['“', '”', '„', '‘', '’', '«'])?;
    let inside = opened.strip_suffix(['“', '”', '‘', '’', '»'])?;
    (!inside.is_empty()).then_some(inside)
}

fn null(span: Span) -> YamlNode {
    YamlNode { span, content: YamlContent::Scalar(YamlScalar { text: String::new(), plain: true }) }
}

fn key_text(node: &YamlNode) -> Result<String, &'static str> {
    match &node.content {
        YamlContent::Scalar(s) if s.plain && s.text == "<<" => {
            Err("merge keys are not supported; write the keys out, or use `defaults`")
        }
        YamlContent::Scalar(s) if s.plain && s.text.is_empty() => Err("a key is missing here"),
        YamlContent::Scalar(s) => Ok(s.text.clone()),
        _ => Err("a key must be text, not a list or map"),
    }
}

#[cfg(test)]
mod tests;

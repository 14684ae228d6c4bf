//! Checks the source of a chat template before it is parsed, and inserts the checks of its values.
//!
//! The parser of minijinja descends once per operator, and so do the compiler and the destructor of its tree: a tag of
//! 50,000 signs would overflow any stack. The tokens are those of minijinja, so a string or comment cannot hide a tag.

use super::limits::{ALTERNATIVES, OPERATORS, SOURCE, UNCHARGED, exceeded};
use super::value_guard::{ASSIGNED, FACTOR, OPERAND, PRINTED, STORED};
use minijinja::Error;
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Returns the source with checks of values: of the left operand of `~`, `+` and `*`, by which texts grow, and of
/// assigned values, and with checks of long texts between tags, which a loop may capture again and again. Errors: a
/// source that is too long or nested too deeply, or that is not a template.
pub fn guarded(source: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    if source.len() > SOURCE {
        return Err(exceeded(&format!("its source has {} bytes", source.len()), SOURCE));
    }
    let (mut insertions, mut tag, mut alternatives) = (Vec::new(), Tag::default(), 0);
    for token in tokenize(source, false, syntax.clone()) {
        let (token, span) = token?;
        match token {
            Token::TemplateData(text) if text.len() > UNCHARGED => {
                let start = span.start_offset as usize;
                insertions.push((start, text_check(source, start, text.len())));
            }
            Token::TemplateData(_) => {}
            Token::VariableStart => tag = Tag::default(),
            Token::BlockStart => tag = Tag { block: true, ..Tag::default() },
            Token::VariableEnd | Token::BlockEnd => tag.close(&mut insertions),
            token => {
                tag.take(&token, span, &mut insertions)?;
                alternatives += usize::from(tag.tokens == 1 && tag.block && matches!(token, Token::Ident("elif")));
            }
        }
    }
    if alternatives > ALTERNATIVES {
        return Err(exceeded(&format!("it has {alternatives} `elif`"), ALTERNATIVES));
    }
    Ok(inserted(source, &insertions))
}

/// A text to insert before a position of the source.
type Insertion = (usize, String);

fn inserted(source: &str, insertions: &[Insertion]) -> String {
    let (mut out, mut done) = (String::with_capacity(source.len()), 0);
    for (at, text) in insertions {
        out.push_str(&source[done..*at]);
        out.push_str(text);
        done = *at;
    }
    out + &source[done..]
}

/// Returns a check of a text between tags, for the place where the text starts. There it changes no white space: the
/// tag before the text has removed its share already, and the tag after it removes at most the start of that line. A
/// raw block would print the check, so it ends before and begins again.
fn text_check(source: &str, start: usize, bytes: usize) -> String {
    let check = format!("{{{{ {bytes}|{PRINTED} }}}}");
    match raw_tag(&source[..start]) {
        Some(tag) => format!("{{% endraw %}}{check}{tag}"),
        None => check,
    }
}

/// Returns the tag `{% raw %}` at the end of a text.
fn raw_tag(before: &str) -> Option<&str> {
    let start = before.strip_suffix("%}")?.rfind("{%")?;
    let word = before[start + 2..before.len() - 2].trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
    (word == "raw").then(|| &before[start..])
}

/// State of the tag that is read.
#[derive(Default)]
struct Tag {
    /// Whether the tag is a statement.
    block: bool,
    tokens: usize,
    operators: usize,
    brackets: usize,
    /// Whether the tag is a `set`.
    set: bool,
    /// Whether the target of the `set` is an attribute.
    dotted: bool,
    /// Whether the expression of the `set` has begun.
    assigned: bool,
    /// Whether the last token may end an operand.
    operand: bool,
    /// End of the last token.
    end: usize,
}

impl Tag {
    fn take(&mut self, token: &Token<'_>, span: Span, insertions: &mut Vec<Insertion>) -> Result<(), Error> {
        self.tokens += 1;
        if self.tokens == 1 && self.block {
            self.set = matches!(token, Token::Ident("set"));
        }
        self.operators += usize::from(nests(token));
        if self.operators > OPERATORS {
            let line = span.start_line;
            return Err(exceeded(&format!("the tag at line {line} has {} operators", self.operators), OPERATORS));
        }
        match token {
            Token::Tilde | Token::Plus if self.operand => insertions.push((self.end, format!("|{OPERAND}"))),
            Token::Mul if self.operand => insertions.push((self.end, format!("|{FACTOR}"))),
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => self.brackets += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                self.brackets = self.brackets.saturating_sub(1);
            }
            Token::Dot if self.set && !self.assigned => self.dotted = true,
            Token::Assign if self.set && !self.assigned && self.brackets == 0 => {
                self.assigned = true;
                insertions.push((span.end_offset as usize, "(".to_string()));
            }
            _ => {}
        }
        self.operand = ends_operand(token);
        self.end = span.end_offset as usize;
        Ok(())
    }
    fn close(&mut self, insertions: &mut Vec<Insertion>) {
        if self.assigned {
            let check = if self.dotted { STORED } else { ASSIGNED };
            insertions.push((self.end, format!(")|{check}")));
        }
    }
}

/// Returns whether a token may nest the expression by one level.
fn nests(token: &Token<'_>) -> bool {
    match token {
        Token::Ident(word) => matches!(*word, "not" | "and" | "or" | "in" | "is" | "if" | "else"),
        Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => false,
        Token::Comma | Token::Colon | Token::Assign => false,
        Token::ParenClose | Token::BracketClose | Token::BraceClose => false,
        _ => true,
    }
}

fn ends_operand(token: &Token<'_>) -> bool {
    matches!(
        token,
        Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::ParenClose
            | Token::BracketClose
            | Token::BraceClose
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::{Environment, Value};

    fn guard(source: &str) -> Result<String, Error> {
        guarded(source, &SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap())
    }

    #[test]
    fn checks_are_inserted_at_operands_and_assignments() {
        let cases = [
            ("{{ a ~ b }}", "{{ a|_operand ~ b }}"),
            ("{{ (x.y) + -z[1] }} a + b", "{{ (x.y)|_operand + -z[1] }} a + b"),
            ("{%- set s = s ~ 'a ~ b' -%}", "{%- set s =( s|_operand ~ 'a ~ b')|_assigned -%}"),
            ("{% set n.l = [1], 2 %}", "{% set n.l =( [1], 2)|_stored %}"),
            ("{% set s %}{{ '%}' ~ s }}{% endset %}", "{% set s %}{{ '%}'|_operand ~ s }}{% endset %}"),
            ("{# {{ a ~ b }} #}{% raw %}{{ a ~ b }}{% endraw %}", "{# {{ a ~ b }} #}{% raw %}{{ a ~ b }}{% endraw %}"),
            ("{{ f(*a, b * 2) }}", "{{ f(*a, b|_factor * 2) }}"),
            ("{% if f(a=b + 1) +%}é", "{% if f(a=b|_operand + 1) +%}é"),
        ];
        for (source, expected) in cases {
            assert_eq!(guard(source).unwrap(), expected);
        }
    }

    #[test]
    fn checks_of_long_texts_change_no_white_space() {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap();
        let mut environment = Environment::new();
        environment.set_syntax(syntax.clone());
        environment.add_filter(ASSIGNED, |value: Value| value);
        environment.add_filter(PRINTED, |bytes: usize| if bytes > UNCHARGED { "" } else { "unexpected" });
        let (words, blanks) = ("w".repeat(100), " ".repeat(100));
        let befores =
            ["", "{{ 'a' }}", "{{ 'a' -}}", "{% if 1 %}", "{%- if 1 -%}", "{% if 1 +%}", "{# c #}", "{# c -#}"];
        let texts = ["W", "\nW", " \n W\n  ", "- W -", "B", "\nB", "B\n", "\n\nB\n ", "\nB\nW\nB", "{ W }"];
        let afters = [
            "",
            "{{ 'b' }}",
            "{{- 'b' }}",
            "{% set x = 1 %}\nb",
            "{%- set x = 1 %}b",
            "{%+ set x = 1 -%} b",
            "{# c #}",
            "{#- c #}",
            "{% raw %}\nW{{ b }}\n {% endraw %}\nb",
            "{%- raw -%}\n {{ W }}\n {%- endraw -%}\n b",
            "{%+raw+%}\n {% W %}B{%+endraw+%}\n b",
        ];
        for case in 0..befores.len() * texts.len() * afters.len() {
            let before = befores[case % befores.len()];
            let text = texts[case / befores.len() % texts.len()];
            let after = afters[case / (befores.len() * texts.len())];
            let end = if before.contains("if") { "{% endif %}" } else { "" };
            let source = format!("{before}{text}{after}{end}").replace('W', &words).replace('B', &blanks);
            let expected = environment.render_str(&source, ()).unwrap();
            assert_eq!(environment.render_str(&guard(&source).unwrap(), ()).unwrap(), expected, "{source}");
        }
        assert!(guard(&words).unwrap().starts_with("{{ 100|_printed }}w"));
        let raw = format!("{{% raw %}}{words}{{% endraw %}}");
        assert!(guard(&raw).unwrap().starts_with("{% raw %}{% endraw %}{{ 100|_printed }}{% raw %}w"));
        assert_eq!(guard(&"w".repeat(UNCHARGED)).unwrap(), "w".repeat(UNCHARGED));
    }

    #[test]
    fn deep_sources_are_refused_before_they_are_parsed() {
        for repeated in ["-", "not ", "1 + ", "[", "(", "x if x else "] {
            let deep = format!("{{{{ {}1 }}}}", repeated.repeat(1_001));
            assert!(guard(&deep).unwrap_err().to_string().contains("operators"), "{repeated}");
        }
        for repeated in [".x", "|string", "[0]", "()", " is defined"] {
            let deep = format!("{{{{ x{} }}}}", repeated.repeat(1_001));
            assert!(guard(&deep).unwrap_err().to_string().contains("operators"), "{repeated}");
        }
        let chain = format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(1_001));
        assert!(guard(&chain).unwrap_err().to_string().contains("`elif`"));
        assert!(guard(&"x".repeat(SOURCE + 1)).unwrap_err().to_string().contains("bytes"));
        // Many tags are no nesting, and neither are long lists of constants.
        guard(&"{{ a ~ b }}".repeat(5_000)).unwrap();
        guard(&format!("{{{{ [{}] }}}}", "1,".repeat(5_000))).unwrap();
    }
}

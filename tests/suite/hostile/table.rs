//! Reads tables of hostile files, whose first lines describe their form.

use crate::kit::Ran;

/// One case of a table.
pub struct Case {
    pub name: &'static str,
    /// Fields of the first line between the name and the exit code.
    pub fields: Vec<&'static str>,
    pub code: i32,
    /// Part of the message.
    pub words: &'static str,
    pub content: &'static str,
}

/// Reads all cases of a table.
pub fn cases(table: &'static str) -> Vec<Case> {
    table.split("\n--- ").skip(1).map(read).collect()
}

fn read(entry: &'static str) -> Case {
    let (head, content) = entry.split_once('\n').unwrap_or((entry, ""));
    let mut fields: Vec<&str> = head.split(" | ").collect();
    assert!(fields.len() >= 3, "`{head}` lacks fields");
    let (words, code) = (fields.pop().unwrap(), fields.pop().unwrap());
    let name = fields.remove(0);
    let code = code.parse().unwrap_or_else(|_| panic!("`{code}` of {name} is not an exit code"));
    Case { name, fields, code, words, content }
}

impl Case {
    /// Returns the files: the first one, which has this name, and those after lines `=== NAME`. A line that is `word`
    /// stands for `text`.
    pub fn files(&self, first: &str, word: &str, text: &str) -> Vec<(String, Vec<u8>)> {
        let (mut name, mut content, mut files) = (first.to_string(), String::new(), Vec::new());
        for line in self.content.split_inclusive('\n') {
            if let Some(next) = line.strip_prefix("=== ") {
                files.push((std::mem::replace(&mut name, next.trim().to_string()), expand(&content)));
                content.clear();
            } else if line.trim_end() == word {
                content.push_str(text);
            } else {
                content.push_str(line);
            }
        }
        files.push((name, expand(&content)));
        files
    }
    /// Appends a failure if a command did not end as expected.
    pub fn judge(&self, ran: &Ran, failures: &mut Vec<String>) {
        super::judge(self.name, ran, self.code, self.words, failures);
    }
}

/// Replaces each `«TEXT*N»`.
pub fn expand(content: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), content);
    while let Some((before, after)) = rest.split_once('«') {
        bytes.extend_from_slice(before.as_bytes());
        let (repeated, after) = after.split_once('»').unwrap_or_else(|| panic!("no end of «{after}"));
        let (text, times) = repeated.rsplit_once('*').unwrap_or_else(|| panic!("no number in «{repeated}»"));
        let times: usize = times.parse().unwrap_or_else(|_| panic!("no number in «{repeated}»"));
        if text.contains('#') {
            bytes.extend((0..times).flat_map(|number| unescape(&text.replace('#', &number.to_string()))));
        } else {
            bytes.extend(unescape(text).repeat(times));
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes().first() {
            Some(b'0') => (0, 1),
            Some(b'n') => (b'\n', 1),
            Some(b'r') => (b'\r', 1),
            Some(b't') => (b'\t', 1),
            Some(b'x') => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            _ => panic!("`\\{after}` is no escape"),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn texts_are_repeated_numbered_and_unescaped() {
    assert_eq!(expand("a«b*3»c"), b"abbbc");
    assert_eq!(expand("«s#,*3»«\\x23*2»"), b"s0,s1,s2,##");
    assert_eq!(expand("«*a*2»«\\0\\n\\xff*1»"), b"*a*a\0\n\xff");
    let case = read("x | f | 2 | why\nHEAD\na\n=== y\nb\n");
    assert_eq!((case.name, &case.fields[..], case.code, case.words), ("x", &["f"][..], 2, "why"));
    let files = case.files("x.yaml", "HEAD", "h\n");
    assert_eq!(files, [("x.yaml".to_string(), b"h\na\n".to_vec()), ("y".to_string(), b"b\n".to_vec())]);
}

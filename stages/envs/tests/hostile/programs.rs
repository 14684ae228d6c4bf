//! Reads the table of hostile programs, `programs.txt`, whose first lines describe its form.

/// Result that an agent must see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// An error that contains this text.
    Error(&'static str),
    /// A result without an error, which equals this text.
    Same(&'static str),
    /// The end of the call at its time limit.
    TimedOut,
}

/// One program.
pub struct Program {
    pub name: &'static str,
    pub code: &'static str,
    pub cpython: Expected,
    pub monty: Expected,
}

/// Returns all programs, in the order of the file.
pub fn programs() -> Vec<Program> {
    include_str!("programs.txt").split("\n--- ").skip(1).map(read).collect()
}

fn read(entry: &'static str) -> Program {
    let (head, code) = entry.split_once('\n').unwrap_or_else(|| panic!("no program under `{entry}`"));
    let fields: Vec<&'static str> = head.split(" | ").collect();
    let [name, cpython, monty] = fields[..] else { panic!("`{head}` has {} fields, not 3", fields.len()) };
    // A line that begins a subject belongs to no program.
    let code = code.split("\n\n# ").next().unwrap_or_default().trim_end();
    Program { name, code, cpython: Expected::read(cpython), monty: Expected::read(monty) }
}

impl Expected {
    fn read(text: &'static str) -> Self {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "error" => Self::Error(rest),
            "same" => Self::Same(rest),
            "timeout" => Self::TimedOut,
            _ => panic!("`{text}` is not an outcome"),
        }
    }
}

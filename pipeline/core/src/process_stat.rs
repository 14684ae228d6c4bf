//! Parses the line that Linux has in `/proc/<pid>/stat` for each process.

/// Line of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Process id.
    pub pid: u32,
    /// Letter of its state.
    pub state: char,
    /// Process id of its parent.
    pub parent: u32,
    /// Id of its process group.
    pub group: u32,
    /// Id of its session.
    pub session: u32,
    /// Start in clock ticks since the machine started.
    pub start: u64,
}

impl ProcessStat {
    /// Parses `pid (name) state parent group session …`; the name may contain spaces, lines and parentheses. Returns
    /// `None` for other texts, such as the empty one of a process that has just ended.
    pub fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        Some(Self {
            pid: pid.parse().ok()?,
            state: fields.next()?.parse().ok()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
            // Field 22 of the line; the session is field 6.
            start: fields.nth(15)?.parse().ok()?,
        })
    }
    /// Returns whether the process has ended and was not waited for yet.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "0 -1 4194304 98 0 0 0 1 2 0 0 20 0 1 0 5077 2490368 227 18446744073709551615";

    #[test]
    fn names_may_contain_any_character() {
        for name in ["sh", "", "a b", "a) S 1 2 3 (b", "(", "\n", "1 (x) Z 2"] {
            let stat = ProcessStat::parse(&format!("42 ({name}) S 7 40 39 {REST}\n")).unwrap();
            let expected = ProcessStat { pid: 42, state: 'S', parent: 7, group: 40, session: 39, start: 5077 };
            assert_eq!(stat, expected, "{name}");
            assert!(!stat.is_zombie());
        }
    }

    #[test]
    fn ended_processes_are_zombies() {
        for (state, is_zombie) in [('Z', true), ('X', true), ('R', false), ('T', false), ('D', false)] {
            let stat = ProcessStat::parse(&format!("42 (dead) {state} 7 40 40 {REST}")).unwrap();
            assert_eq!(stat.is_zombie(), is_zombie, "{state}");
        }
    }

    #[test]
    fn other_texts_are_no_line() {
        for text in ["", "42", "42 (sh) ", "42 (sh) S 7 40", "x (sh) S 7 40 40 0 -1", "42 (sh) S 7 40 40 0 -1"] {
            assert_eq!(ProcessStat::parse(text), None, "{text}");
        }
    }
}

//! Describes how the tools that a program offers differ from those that it offered before.

use crate::tools::ToolSpec;

/// Describes how the tools `now` differ from those `before`; returns `None` if they do not differ.
pub fn difference(before: &[ToolSpec], now: &[ToolSpec]) -> Option<String> {
    let find = |list: &[ToolSpec], name: &str| list.iter().find(|tool| tool.name == name).cloned();
    let mut words = Vec::new();
    for old in before {
        match find(now, &old.name) {
            None => words.push(format!("`{}` is missing", old.name)),
            Some(new) if new.parameters != old.parameters => {
                words.push(format!("`{}` has other parameters", old.name));
            }
            Some(new) if new.description != old.description => {
                words.push(format!("`{}` has another description", old.name));
            }
            Some(_) => {}
        }
    }
    words
        .extend(now.iter().filter(|new| find(before, &new.name).is_none()).map(|new| format!("`{}` is new", new.name)));
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn difference_is_described() {
        let tool = |name: &str, words: &str, kind: &str| ToolSpec {
            name: name.into(),
            description: words.into(),
            parameters: json!({"type": kind}),
        };
        let before = [tool("a", "", "object"), tool("b", "", "object"), tool("c", "", "object")];
        let now = [tool("d", "", "object"), tool("c", "x", "object"), tool("b", "", "array")];
        let words = "`a` is missing, `b` has other parameters, `c` has another description, `d` is new";
        assert_eq!(difference(&before, &now).as_deref(), Some(words));
        assert_eq!(difference(&before, &[before[2].clone(), before[0].clone(), before[1].clone()]), None);
    }
}

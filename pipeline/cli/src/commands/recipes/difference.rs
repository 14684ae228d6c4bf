//! Formats the difference of two configs as YAML lines that begin with a space, `-` or `+`.

use serde_json::{Map, Value};
use std::fmt::Write as _;
use trainyard_spec::print::inline_value;

/// Returns the difference of two configs, or an empty text if they are equal.
pub fn difference(old: &Value, new: &Value) -> String {
    let mut out = String::new();
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        maps(old, new, 0, &mut out);
    }
    out
}

fn maps(old: &Map<String, Value>, new: &Map<String, Value>, indent: usize, out: &mut String) {
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (a, b) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
        match (a, b) {
            _ if a == b => {}
            (Value::Object(a), Value::Object(b)) if a.get("kind") == b.get("kind") => {
                line(out, ' ', indent, &format!("{key}:"));
                if let Some(kind) = b.get("kind") {
                    line(out, ' ', indent + 2, &format!("kind: {}", inline_value(kind)));
                }
                maps(a, b, indent + 2, out);
            }
            (Value::Array(a), Value::Array(b)) => {
                line(out, ' ', indent, &format!("{key}:"));
                lists(a, b, indent + 2, out);
            }
            _ => {
                for (sign, value) in [('-', a), ('+', b)] {
                    if !value.is_null() {
                        line(out, sign, indent, &format!("{key}: {}", inline_value(value)));
                    }
                }
            }
        }
    }
}

/// Writes the items of lists: removed items first, then the items of `new` in their order.
fn lists(old: &[Value], new: &[Value], indent: usize, out: &mut String) {
    let mut item = |sign: char, value: &Value| line(out, sign, indent, &format!("- {}", inline_value(value)));
    old.iter().filter(|v| !new.contains(v)).for_each(|v| item('-', v));
    new.iter().for_each(|v| item(if old.contains(v) { ' ' } else { '+' }, v));
}

fn line(out: &mut String, sign: char, indent: usize, text: &str) {
    let _ = writeln!(out, "{sign} {:indent$}{text}", "");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_differences_are_shown_under_their_keys() {
        let old = json!({
            "seed": 1, "epochs": 1, "filters": [{"kind": "zero_variance"}],
            "loss": {"aggregate": "sum", "terms": [{"kind": "clip", "low": 0.2}, {"kind": "kl"}]},
            "advantage": {"kind": "group", "scale": "group"}, "replay": {"kind": "none"},
        });
        let new = json!({
            "seed": 1, "epochs": 2, "filters": [{"kind": "void_turn"}, {"kind": "zero_variance"}],
            "loss": {"aggregate": "sum", "terms": [{"kind": "nft", "rate": null, "floor": 1.0}, {"kind": "kl"}]},
            "advantage": {"kind": "group", "scale": "batch"}, "replay": {"kind": "buffer", "size": 3},
        });
        let shown = "\
  advantage:
    kind: group
-   scale: group
+   scale: batch
- epochs: 1
+ epochs: 2
  filters:
+   - {kind: void_turn}
    - {kind: zero_variance}
  loss:
    terms:
-     - {kind: clip, low: 0.2}
+     - {kind: nft, floor: 1.0}
      - {kind: kl}
- replay: {kind: none}
+ replay: {kind: buffer, size: 3}
";
        // The line continuation above removes the indent of the first line.
        let shown = format!("  {shown}");
        assert_eq!(difference(&old, &new), shown);
        assert_eq!(difference(&old, &old), "");
    }
}

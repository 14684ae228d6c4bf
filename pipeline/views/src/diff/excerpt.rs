//! Cuts the texts of two cells to the place where they differ.

use serde_json::Value;

/// Maximum characters of an excerpt, without the marks of omission.
const MAX_TEXT: usize = 120;
/// Characters before the first difference.
const BEFORE: usize = 20;

/// Returns the beginning of a cell.
pub fn beginning(cell: &Value) -> String {
    window(&plain(cell), 0)
}

/// Returns the texts of two cells, from shortly before their first difference if one of them is long.
pub fn differing_parts(a: &Value, b: &Value) -> (String, String) {
    let (a, b) = (plain(a), plain(b));
    let shared = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let is_long = |text: &str| text.chars().nth(MAX_TEXT).is_some();
    let start = if is_long(&a) || is_long(&b) { shared.saturating_sub(BEFORE) } else { 0 };
    (window(&a, start), window(&b, start))
}

fn plain(cell: &Value) -> String {
    cell.as_str().map_or_else(|| cell.to_string(), str::to_string)
}

fn window(text: &str, start: usize) -> String {
    let mut rest = text.chars().skip(start);
    let mut shown: String = if start > 0 { "…".to_string() } else { String::new() };
    shown.extend(rest.by_ref().take(MAX_TEXT));
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn short_cells_are_whole() {
        assert_eq!(differing_parts(&json!("yes"), &json!("no")), ("yes".into(), "no".into()));
        assert_eq!(differing_parts(&json!(null), &json!([1, "é"])), ("null".into(), "[1,\"é\"]".into()));
        assert_eq!(beginning(&json!(3)), "3");
    }

    #[test]
    fn long_cells_are_cut_around_the_difference() {
        let text = |end: &str| json!(format!("{}{end}", "é".repeat(500)));
        let (a, b) = differing_parts(&text("A"), &text(&"B".repeat(300)));
        assert_eq!(a, format!("…{}A", "é".repeat(20)));
        assert_eq!(b, format!("…{}{}…", "é".repeat(20), "B".repeat(100)));
        // One is the beginning of the other.
        let (a, b) = differing_parts(&json!("x"), &json!("x".repeat(121)));
        assert_eq!((a.as_str(), b.chars().count()), ("x", 121));
        assert_eq!(beginning(&text("")).chars().count(), 121);
    }
}

//! Parses GSM8K's calculator annotations, such as `48/2 = <<48/2=24>>24 clips` (arXiv 2110.14168).
//!
//! An annotation contains an expression and, after `=`, the claimed value, which the following text repeats.
//! [`segments`] splits a solution at its annotations without losing a character of its text. An annotation without `=`
//! is dropped.

/// A piece of a solution: text, then (except in the last piece) a calculation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolutionSegment<'a> {
    /// Text before the annotation, with all annotations removed.
    pub text: String,
    /// Calculation that follows the text; `None` only in the last piece.
    pub calculation: Option<Calculation<'a>>,
}

/// An annotation `<<expression=claim>>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calculation<'a> {
    /// Text before the first `=`.
    pub expression: &'a str,
    /// Value that the author claims: the text after the last `=`.
    pub claim: &'a str,
}

/// Splits a solution at its calculations. The joined texts are the solution without its annotations.
pub fn segments(solution: &str) -> Vec<SolutionSegment<'_>> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = solution;
    while let Some((before, after)) = rest.split_once("<<") {
        text.push_str(before);
        let Some((inside, tail)) = after.split_once(">>") else {
            text.push_str("<<");
            rest = after;
            continue;
        };
        if let Some((expression, claim)) = split(inside) {
            found.push(SolutionSegment {
                text: std::mem::take(&mut text),
                calculation: Some(Calculation { expression, claim }),
            });
        }
        rest = tail;
    }
    text.push_str(rest);
    found.push(SolutionSegment { text, calculation: None });
    found
}

/// Returns the text of a solution without annotations.
pub fn plain(solution: &str) -> String {
    segments(solution).into_iter().map(|s| s.text).collect()
}

/// Returns the text before the first `=` and the text after the last one, or `None` without a `=`.
fn split(inside: &str) -> Option<(&str, &str)> {
    let (expression, _) = inside.split_once('=')?;
    let (_, claim) = inside.rsplit_once('=')?;
    Some((expression.trim(), claim.trim()))
}

/// Rewrites an expression in Python's syntax: removes `$`, thousands separators (`12*20,000`) and leading zeros (`05`).
pub fn python_form(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len());
    let chars: Vec<char> = expression.chars().filter(|c| *c != '$').collect();
    let digit = |i: usize| chars.get(i).is_some_and(char::is_ascii_digit);
    let separator =
        |i: usize| chars[i] == ',' && i > 0 && digit(i - 1) && (1..=3).all(|k| digit(i + k)) && !digit(i + 4);
    for (i, &c) in chars.iter().enumerate() {
        let starts_number = !out.ends_with(|c: char| c.is_ascii_digit() || c == '.');
        let leading_zero = c == '0' && digit(i + 1) && starts_number;
        if !separator(i) && !leading_zero {
            out.push(c);
        }
    }
    out
}

/// Returns whether a tool's printed result equals the claimed number, or `None` if one of them is not a number. The
/// claim may be a fraction `a/b`. The numbers may differ by 1e-6, relative to claims above 1.
pub fn agrees(result: &str, claim: &str) -> Option<bool> {
    let (result, claim) = (number(result)?, number(claim)?);
    Some((result - claim).abs() <= 1e-6 * claim.abs().max(1.0))
}

fn number(text: &str) -> Option<f64> {
    let text = python_form(text.trim());
    let value = match text.split_once('/') {
        Some((a, b)) => a.trim().parse::<f64>().ok()? / b.trim().parse::<f64>().ok()?,
        None => text.parse().ok()?,
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_is_split_at_its_calculations() {
        let s = segments("He sold 48/2 = <<48/2=24>>24.\nIn all <<48+24=72>>72.\n#### 72");
        assert_eq!(s.len(), 3);
        assert_eq!(
            s[0],
            SolutionSegment {
                text: "He sold 48/2 = ".into(),
                calculation: Some(Calculation { expression: "48/2", claim: "24" })
            }
        );
        assert_eq!(s[1].text, "24.\nIn all ");
        assert_eq!(s[2], SolutionSegment { text: "72.\n#### 72".into(), calculation: None });
        assert_eq!(plain("a <<1+1=2>>2 b"), "a 2 b");
    }

    #[test]
    fn broken_annotations_make_no_calculation() {
        assert_eq!(segments("a << b"), [SolutionSegment { text: "a << b".into(), calculation: None }]);
        assert_eq!(segments("a <<83.3>>83.3"), [SolutionSegment { text: "a 83.3".into(), calculation: None }]);
        assert_eq!(
            segments("<<5*2/5=2.0=2.0>>").first().unwrap().calculation,
            Some(Calculation { expression: "5*2/5", claim: "2.0" })
        );
    }

    #[test]
    fn expressions_become_python() {
        for (from, to) in [
            ("12*20,000", "12*20000"),
            ("1,234,567/05", "1234567/5"),
            ("0.5+.05*10", "0.5+.05*10"),
            ("100*1.05", "100*1.05"),
            ("0", "0"),
            ("2,3", "2,3"),
            ("$5*2", "5*2"),
            ("007+1", "7+1"),
        ] {
            assert_eq!(python_form(from), to);
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert_eq!(agrees("0.75", "3/4"), Some(true));
        assert_eq!(agrees("24.0", "24"), Some(true));
        assert_eq!(agrees("6.666666", "8"), Some(false));
        assert_eq!(agrees("240000", "240,000"), Some(true));
        assert_eq!(agrees("NameError", "8"), None);
        assert_eq!(agrees("8", "2s"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_lost(
            pieces in proptest::collection::vec(("[a-z .\n]{0,8}", "[0-9+*/(). ]{1,6}", "[0-9]{1,3}"), 0..6),
            tail in "[a-z #0-9]{0,8}",
        ) {
            let pieces_text: String = pieces.iter().map(|(text, e, v)| format!("{text}<<{e}={v}>>{v}")).collect();
            let annotated = pieces_text + &tail;
            let without: String = pieces.iter().map(|(text, _, v)| format!("{text}{v}")).collect::<String>() + &tail;
            proptest::prop_assert_eq!(plain(&annotated), without);
            proptest::prop_assert_eq!(segments(&annotated).len(), pieces.len() + 1);
        }

        #[test]
        fn any_text_is_split_without_panic(text in "[<>=0-9a\n]{0,30}") {
            let _ = segments(&text);
        }

        #[test]
        fn the_python_form_is_stable(text in "[0-9,.$+*/() ]{0,16}") {
            let once = python_form(&text);
            let twice = python_form(&once);
            proptest::prop_assert_eq!(python_form(&twice), twice.clone());
            // Without separators, a second pass changes nothing.
            proptest::prop_assert!(text.contains(',') || once == twice);
        }
    }
}

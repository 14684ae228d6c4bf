//! Breaks expressions for demonstrations, so that a model learns to recover from an error.
//!
//! The tool reports every such mistake, because an agent without the answer cannot notice an incorrect number.

use trainyard_core::Chance;
use trainyard_core::chance::PhiloxRng;

/// Returns the expressions to send to a stateless tool: the correct one, with probability `mistakes` preceded by a
/// broken one.
pub fn attempts(expression: &str, mistakes: f64, chance: &Chance) -> Vec<String> {
    let mut draws = chance.at("mistake", &[]);
    let mistake = (draws.uniform() < mistakes).then(|| broken(expression, &mut draws));
    mistake.into_iter().chain([expression.to_string()]).collect()
}

/// Breaks an expression with an undefined name, an operator without its right side, or an extra parenthesis.
pub fn broken(expression: &str, draws: &mut PhiloxRng) -> String {
    match draws.below(3) {
        0 => undefined_name(expression, draws),
        1 => format!("{expression}{}", draws.choose(&["+", "*", "-"])),
        _ => format!("{expression})"),
    }
}

/// Replaces one number by a name.
fn undefined_name(expression: &str, draws: &mut PhiloxRng) -> String {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let mut numbers: Vec<(usize, usize)> = Vec::new();
    for (i, c) in expression.char_indices().filter(|(_, c)| digits(*c)) {
        match numbers.last_mut() {
            Some((_, end)) if *end == i => *end = i + c.len_utf8(),
            _ => numbers.push((i, i + c.len_utf8())),
        }
    }
    if numbers.is_empty() {
        return format!("{expression}+x");
    }
    let (start, end) = *draws.choose(&numbers);
    format!("{}{}{}", &expression[..start], draws.choose(&["x", "n"]), &expression[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_come_first_and_only_on_request() {
        let chance = Chance::new(2);
        assert_eq!(attempts("1+2", 0.0, &chance), ["1+2"]);
        let both = attempts("1+2", 1.0, &chance);
        assert_eq!((both.len(), both[1].as_str()), (2, "1+2"));
        assert_ne!(both[0], "1+2");
    }

    #[test]
    fn broken_expressions_differ_and_every_kind_occurs() {
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..60 {
            let text = broken("(12+3)*4.5", &mut Chance::new(1).at("m", &[i]));
            assert_ne!(text, "(12+3)*4.5");
            seen.insert(text);
        }
        for expected in ["(x+3)*4.5", "(12+3)*n", "(12+3)*4.5)", "(12+3)*4.5+"] {
            assert!(seen.contains(expected), "{expected}: {seen:?}");
        }
    }
}

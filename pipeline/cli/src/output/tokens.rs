//! Formats the tokens of a trajectory: in color as a text, otherwise as a table.

use super::clean::{AllowedCodes, clean};
use super::human::table;
use super::style::{SCALE, Style};
use std::fmt::Write as _;
use trainyard_views::tokens::{TokenPage, TokenRow};

/// Formats tokens. Without color, a table has one row per token.
pub fn text(page: &TokenPage, style: Style) -> String {
    if style.is_on() { colored(page, style) } else { format!("{}\n{}", legend(page, style), rows(page)) }
}

fn legend(page: &TokenPage, style: Style) -> String {
    let contexts = if page.contexts > 1 { format!(", {} contexts", page.contexts) } else { String::new() };
    let count = format!("{} tokens{contexts}", page.tokens.len());
    let Some((low, high)) = page.range else { return format!("{count}; no token has a {}", page.value.name()) };
    let levels: Vec<String> = (0..SCALE.len()).map(|level| style.scale(level, "██")).collect();
    let scale = if style.is_on() { format!(" {}", levels.concat()) } else { String::new() };
    format!("{count}; {} from {}{scale} to {}", page.value.name(), number(low), number(high))
}

fn colored(page: &TokenPage, style: Style) -> String {
    let mut text = legend(page, style);
    text.push('\n');
    for token in &page.tokens {
        if let Some(context) = token.context_starts {
            let heading = format!("── context {context} of {}", page.contexts);
            let _ = write!(text, "\n\n{}\n", style.bold(&heading));
        }
        if let Some(turn) = token.turn.filter(|_| token.turn_starts) {
            let _ = write!(text, "\n{}\n", style.bold(&format!("── turn {turn}")));
        }
        text.push_str(&painted(token, page.range, style));
        if let Some(step) = token.step_ends {
            text.push_str(&style.bold(&format!("⟨step {step}⟩")));
        }
    }
    text
}

/// Colors one token, or its id with a space if its text is unknown. A line feed has a symbol.
fn painted(token: &TokenRow, range: Option<(f64, f64)>, style: Style) -> String {
    let piece = token.text.clone().unwrap_or_else(|| format!("{} ", token.token));
    let paint = |part: &str| match token.value.zip(range) {
        Some((value, range)) if !part.is_empty() => style.scale(level(value, range), part),
        _ => part.to_string(),
    };
    let shown = clean(&piece, AllowedCodes::Nothing);
    let lines: Vec<&str> = shown.split('\n').collect();
    let last = lines.len() - 1;
    let ended = |(at, line): (usize, &&str)| if at == last { paint(line) } else { paint(&format!("{line}⏎")) + "\n" };
    lines.iter().enumerate().map(ended).collect()
}

/// Returns the color of a value: the lowest value of the range has 0, the highest the last color.
fn level(value: f64, (low, high): (f64, f64)) -> usize {
    if high <= low {
        return SCALE.len() - 1;
    }
    let share = (value - low) / (high - low);
    ((share * SCALE.len() as f64) as usize).min(SCALE.len() - 1)
}

fn rows(page: &TokenPage) -> String {
    let has_text = page.tokens.iter().any(|token| token.text.is_some());
    let has_marks = page.tokens.iter().any(|token| !marks(token).is_empty());
    let mut header = vec!["position", "token", "turn", "mask", "value"];
    header.extend(has_text.then_some("text"));
    header.extend(has_marks.then_some("marks"));
    let cells = |token: &TokenRow| {
        let turn = token.turn.map_or_else(|| "-".to_string(), |turn| turn.to_string());
        let value = token.value.map_or_else(|| "-".to_string(), number);
        let mask = u8::from(token.mask).to_string();
        let mut cells = vec![token.position.to_string(), token.token.to_string(), turn, mask, value];
        // Quoted, since spaces at the ends matter.
        cells.extend(has_text.then(|| token.text.as_ref().map(|text| format!("{text:?}")).unwrap_or_default()));
        cells.extend(has_marks.then(|| marks(token)));
        cells
    };
    table(&header, &page.tokens.iter().map(cells).collect::<Vec<_>>())
}

fn marks(token: &TokenRow) -> String {
    let context = token.context_starts.map(|context| format!("context {context} begins"));
    let turn = token.turn.filter(|_| token.turn_starts).map(|turn| format!("turn {turn} begins"));
    let step = token.step_ends.map(|step| format!("step {step} ends"));
    [context, turn, step].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_views::tokens::TokenValue;

    fn token(position: usize, value: Option<f64>, text: &str) -> TokenRow {
        TokenRow {
            position,
            token: 10 + position as u32,
            text: (!text.is_empty()).then(|| text.to_string()),
            turn: Some(0),
            mask: value.is_some(),
            value,
            context_starts: None,
            turn_starts: position == 0,
            step_ends: (position == 1).then_some(1),
        }
    }

    fn page(texts: [&str; 2]) -> TokenPage {
        let tokens = vec![token(0, None, texts[0]), token(1, Some(-0.5), texts[1])];
        TokenPage { value: TokenValue::Logprob, range: Some((-0.5, -0.5)), contexts: 1, tokens }
    }

    #[test]
    fn tokens_are_a_table_without_color() {
        let shown = rows(&page(["", ""]));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "position  token  turn  mask    value  marks");
        assert_eq!(lines[1], "       0     10     0     0        -  turn 0 begins");
        assert_eq!(lines[2], "       1     11     0     1  -0.5000  step 1 ends");
        assert!(rows(&page(["a ", "b"])).contains("\"a \""));
    }

    #[test]
    fn levels_span_the_range() {
        let last = SCALE.len() - 1;
        assert_eq!([level(0.0, (0.0, 1.0)), level(1.0, (0.0, 1.0)), level(3.0, (3.0, 3.0))], [0, last, last]);
        assert!((0..=100).map(|n| level(f64::from(n), (0.0, 100.0))).is_sorted());
    }

    #[test]
    fn texts_are_colored_and_their_codes_escaped() {
        let shown = text(&page(["q\n", "\u{1b}[31;1mx"]), Style::ON);
        let colored = Style::ON.scale(SCALE.len() - 1, "\\u{1b}[31;1mx");
        assert!(shown.contains("q⏎\n") && shown.contains(&colored), "{shown}");
        assert!(shown.contains("⟨step 1⟩") && shown.contains("── turn 0"), "{shown}");
        assert!(shown.starts_with("2 tokens; logprob from -0.5000 "), "{shown}");
    }
}

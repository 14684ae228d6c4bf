//! Builds the texts of string formats, quotation marks included.

use crate::constrain::grammar::{GrammarBuilder, NodeId};

/// Supported formats.
pub const NAMES: [&str; 4] = ["date", "date-time", "time", "uuid"];

/// Days that every month has, months, hours, and minutes: first digit, and the bounds of the second.
const DAYS: &[(&str, u8, u8)] = &[("0", b'1', b'9'), ("1", b'0', b'9'), ("2", b'0', b'8')];
const MONTHS: &[(&str, u8, u8)] = &[("0", b'1', b'9'), ("1", b'0', b'2')];
const HOURS: &[(&str, u8, u8)] = &[("0", b'0', b'9'), ("1", b'0', b'9'), ("2", b'0', b'3')];

/// Returns the node of a format and the characters of its texts, or `None` for an unknown format.
pub fn node(builder: &mut GrammarBuilder, format: &str) -> Option<(NodeId, u32)> {
    let (node, length) = match format {
        "date" => (date(builder), 10),
        "time" => (time(builder), 9),
        "date-time" => {
            let parts = [date(builder), builder.literal("T"), time(builder)];
            (builder.sequence(&parts), 20)
        }
        "uuid" => (uuid(builder), 36),
        _ => return None,
    };
    let quote = builder.literal("\"");
    Some((builder.sequence(&[quote, node, quote]), length))
}

fn date(builder: &mut GrammarBuilder) -> NodeId {
    let dash = builder.literal("-");
    let century = builder.byte(b'1', b'2');
    let digit = builder.byte(b'0', b'9');
    let (month, day) = (pair(builder, MONTHS), pair(builder, DAYS));
    builder.sequence(&[century, digit, digit, digit, dash, month, dash, day])
}

fn time(builder: &mut GrammarBuilder) -> NodeId {
    let (colon, zone) = (builder.literal(":"), builder.literal("Z"));
    let hour = pair(builder, HOURS);
    let (ten, digit) = (builder.byte(b'0', b'5'), builder.byte(b'0', b'9'));
    builder.sequence(&[hour, colon, ten, digit, colon, ten, digit, zone])
}

fn uuid(builder: &mut GrammarBuilder) -> NodeId {
    let dash = builder.literal("-");
    let both = [builder.byte(b'0', b'9'), builder.byte(b'a', b'f')];
    let digit = builder.choice(&both);
    let groups = [8, 4, 4, 4, 12].map(|count| builder.repeat(digit, count, count));
    let [a, b, c, d, e] = groups;
    builder.sequence(&[a, dash, b, dash, c, dash, d, dash, e])
}

fn pair(builder: &mut GrammarBuilder, pairs: &[(&str, u8, u8)]) -> NodeId {
    let mut nodes = Vec::new();
    for (first, low, high) in pairs {
        let parts = [builder.literal(first), builder.byte(*low, *high)];
        nodes.push(builder.sequence(&parts));
    }
    builder.choice(&nodes)
}

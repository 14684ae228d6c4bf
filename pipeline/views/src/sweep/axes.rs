//! Reads the values on axes out of the key of a stage instance: `train[seed=1]/rl[lr=0.003,size=small]`.

/// Value on one axis, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AxisText {
    /// Name of the axis; of a repeated name, the later one has the embedding stage in front.
    pub axis: String,
    /// Text of the value.
    pub value: String,
}

/// Returns the values on the axes of a key, in order; empty for a stage without axes.
pub fn axes_of(key: &str) -> Vec<AxisText> {
    let mut found: Vec<AxisText> = Vec::new();
    for (stage, group) in groups(key) {
        for part in parts(group) {
            let (axis, value) = part.split_once('=').unwrap_or(("item", part));
            let is_known = found.iter().any(|known| known.axis == axis);
            let axis = if is_known { format!("{stage}.{axis}") } else { axis.to_string() };
            found.push(AxisText { axis, value: value.to_string() });
        }
    }
    found
}

/// Returns the contents of the outer brackets, each with the name before it.
fn groups(key: &str) -> Vec<(&str, &str)> {
    let (mut groups, mut depth, mut start, mut name) = (Vec::new(), 0usize, 0, 0);
    for (at, c) in key.char_indices() {
        match c {
            '[' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            ']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    groups.push((key[name..start].trim_start_matches('/'), &key[start + 1..at]));
                    name = at + 1;
                }
            }
            _ => {}
        }
    }
    groups
}

/// Splits at commas outside of inner brackets, braces and quotes. A part without `=` belongs to the value before it.
fn parts(group: &str) -> Vec<&str> {
    let (mut cuts, mut depth, mut is_quoted) = (vec![0], 0usize, false);
    for (at, c) in group.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if depth == 0 && !is_quoted && next_has_axis(&group[at + 1..]) => cuts.push(at + 1),
            _ => {}
        }
    }
    let ends = cuts.iter().skip(1).map(|cut| cut - 1).chain([group.len()]);
    cuts.iter().zip(ends).map(|(from, to)| &group[*from..to]).collect()
}

fn next_has_axis(rest: &str) -> bool {
    let name = rest.split(['=', ',']).next().unwrap_or_default();
    rest[name.len()..].starts_with('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(key: &str) -> Vec<(String, String)> {
        axes_of(key).into_iter().map(|axis| (axis.axis, axis.value)).collect()
    }

    #[test]
    fn axes_are_in_the_order_of_the_key() {
        let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect()
        };
        assert_eq!(pairs("rl[lr=0.003,seed=1]"), expected(&[("lr", "0.003"), ("seed", "1")]));
        assert_eq!(pairs("train[seed=1]/rl[lr=2]"), expected(&[("seed", "1"), ("lr", "2")]));
        assert_eq!(pairs("a[x=1]/b[x=2]"), expected(&[("x", "1"), ("b.x", "2")]));
        assert_eq!(pairs("a[x=[1,2],y={\"k\":1,\"l\":2}]"), expected(&[("x", "[1,2]"), ("y", "{\"k\":1,\"l\":2}")]));
        assert_eq!(pairs("a[x=1,2,y=3]"), expected(&[("x", "1,2"), ("y", "3")]));
        assert!(pairs("rl").is_empty());
    }
}

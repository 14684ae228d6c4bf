//! Finds the valid name that was most likely meant by an unknown one.

/// Returns the valid name that was most likely meant, if one is close enough: by spelling, by its last part
/// (`train/sft` → `sft`), or as the only name with that prefix (`eval` → `evaluate`).
pub fn nearest<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = valid.into_iter().filter(|name| *name != wrong).collect();
    by_last_part(wrong, &names).or_else(|| by_spelling(wrong, &names)).or_else(|| by_beginning(wrong, &names))
}

fn by_last_part<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let part = last(wrong);
    let mut found = names.iter().filter(|name| (wrong.contains('/') || name.contains('/')) && last(name) == part);
    found.next().copied().filter(|_| found.next().is_none())
}

fn by_spelling<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let lower = wrong.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&lower, &name.to_lowercase());
    let (distance, name) = names.iter().map(|name| (distance(name), *name)).min_by_key(|(d, _)| *d)?;
    let shorter = name.chars().count().min(wrong.chars().count());
    (distance < shorter && distance <= 1 + shorter / 3).then_some(name)
}

fn by_beginning<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let lower = wrong.to_lowercase();
    let mut found = names.iter().filter(|name| wrong.len() >= 3 && name.to_lowercase().starts_with(&lower));
    found.next().copied().filter(|_| found.next().is_none())
}

/// Most characters of a list of names that is shown in full.
const LIST: usize = 240;
/// Number of names shown of a longer list.
const FIRST: usize = 12;

/// Returns `did you mean `x`?`, or the list of valid names.
pub fn suggest<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = valid.into_iter().collect();
    if let Some(name) = nearest(wrong, names.iter().copied()) {
        return Some(format!("did you mean `{name}`?"));
    }
    let all = names.join(", ");
    match names.len() {
        0 => None,
        n if n <= FIRST || all.len() <= LIST => Some(format!("valid here: {all}")),
        n => Some(format!("valid here: {}, … ({n} in all)", names[..FIRST].join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_only_if_it_is_near() {
        let names = ["steps", "model", "temperature"];
        assert_eq!(nearest("step", names), Some("steps"));
        assert_eq!(nearest("modle", names), Some("model"));
        assert_eq!(nearest("Temprature", names), Some("temperature"));
        assert_eq!(nearest("x", names), None);
        assert_eq!(nearest("model", names), None, "a name is not a correction of itself");
    }

    #[test]
    fn parts_and_beginnings_of_names_are_understood() {
        let kinds = ["data/import", "data/filter", "evaluate", "rl", "sft"];
        assert_eq!(nearest("train/sft", kinds), Some("sft"));
        assert_eq!(nearest("filter", kinds), Some("data/filter"));
        assert_eq!(nearest("eval", kinds), Some("evaluate"));
        assert_eq!(nearest("data", kinds), None, "two begin so");
    }
}

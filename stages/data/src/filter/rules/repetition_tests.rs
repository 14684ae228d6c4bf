use super::*;

/// Returns a rule with one limit, which it sets; all others are off.
fn only(set: impl Fn(&mut RepetitionRule)) -> RepetitionRule {
    let mut rule = RepetitionRule {
        of: JudgedText::Conversation,
        duplicate_lines: None,
        duplicate_paragraphs: None,
        duplicate_line_characters: None,
        duplicate_paragraph_characters: None,
        top_2_gram: None,
        top_3_gram: None,
        top_4_gram: None,
        duplicate_5_grams: None,
        duplicate_6_grams: None,
        duplicate_7_grams: None,
        duplicate_8_grams: None,
        duplicate_9_grams: None,
        duplicate_10_grams: None,
    };
    set(&mut rule);
    rule
}

/// Returns the rejection's code and detail, empty if the text is kept.
fn judge(rule: &RepetitionRule, text: &str) -> String {
    match rule.rejection(&mut Repeats::default(), text) {
        Some(RuleVerdict::Reject { code, detail }) => format!("{code}: {detail}"),
        _ => String::new(),
    }
}

#[test]
fn lines_by_hand() {
    let rule = only(|rule| rule.duplicate_lines = RepetitionRule::default().duplicate_lines);
    // Three of ten lines equal an earlier one; blank lines and indentation do not matter.
    let text = "a\nb\n\n  a \nc\nd\r\na\ne\nb\nf\n\n\ng";
    assert_eq!(judge(&rule, text), "");
    assert_eq!(judge(&rule, "a\nb\na\nc\nd\na\ne\nb\nf\ng\ng"), "duplicate_lines: 0.3636, at most 0.3");
    let rule = only(|rule| rule.duplicate_line_characters = RepetitionRule::default().duplicate_line_characters);
    // The second `abcd` is four of 20 characters, then four of 19.
    assert_eq!(judge(&rule, "abcd\nabcd\n0123456789"), "");
    assert_eq!(judge(&rule, "abcd\nabcd\n012345678"), "duplicate_line_characters: 0.2105, at most 0.2");
}

#[test]
fn paragraphs_by_hand() {
    let of: Vec<_> = paragraphs("\n\n a\nb \n \n\nb\n\t\nc\n").collect();
    assert_eq!(of, ["a\nb", "b", "c"]);
    let rule = only(|rule| rule.duplicate_paragraphs = RepetitionRule::default().duplicate_paragraphs);
    let text = "a\nx\n\nb\n\na\nx\n\nc\n\nd\n\na\nx\n\ne\n\nb\n\nf\n\ng";
    assert_eq!(judge(&rule, text), "", "three of ten");
    assert_eq!(judge(&rule, &format!("{text}\n\ng")), "duplicate_paragraphs: 0.3636, at most 0.3");
    let rule =
        only(|rule| rule.duplicate_paragraph_characters = RepetitionRule::default().duplicate_paragraph_characters);
    assert_eq!(judge(&rule, "éb\nd\n\néb\nd\n\n01234567"), "", "four of 20 characters");
    assert_eq!(judge(&rule, "éb\nd\n\néb\nd\n\n0123456"), "duplicate_paragraph_characters: 0.2105, at most 0.2");
}

/// Returns a text of `characters` that begins with `text`; the rest is one word.
fn filled(text: &str, characters: usize) -> String {
    format!("{text} {}", "z".repeat(characters - text.chars().count() - 1))
}

#[test]
fn the_most_frequent_n_gram_by_hand() {
    let default = RepetitionRule::default();
    // `a b` twice are 6 characters, 0.2 of 30; `a b c` 10, 0.18 of 55.6; `a b c d` 14, 0.16 of 87.5.
    let rule = only(|rule| rule.top_2_gram = default.top_2_gram);
    assert_eq!(judge(&rule, &filled("a b, A b", 30)), "");
    assert_eq!(judge(&rule, &filled("a b, A b", 29)), "top_2_gram: 0.2069, at most 0.2");
    let rule = only(|rule| rule.top_3_gram = default.top_3_gram);
    assert_eq!(judge(&rule, &filled("a b c, a b c", 56)), "");
    assert_eq!(judge(&rule, &filled("a b c, a b c", 55)), "top_3_gram: 0.1818, at most 0.18");
    let rule = only(|rule| rule.top_4_gram = default.top_4_gram);
    assert_eq!(judge(&rule, &filled("a b c d, a b c d", 88)), "");
    assert_eq!(judge(&rule, &filled("a b c d, a b c d", 87)), "top_4_gram: 0.1609, at most 0.16");
    // An n-gram that occurs once is no repetition, however short the text.
    assert_eq!(judge(&default, "yes it is so"), "");
}

#[test]
fn duplicate_n_grams_by_hand() {
    let default = RepetitionRule::default();
    let rules = [
        only(|rule| rule.duplicate_5_grams = default.duplicate_5_grams),
        only(|rule| rule.duplicate_6_grams = default.duplicate_6_grams),
        only(|rule| rule.duplicate_7_grams = default.duplicate_7_grams),
        only(|rule| rule.duplicate_8_grams = default.duplicate_8_grams),
        only(|rule| rule.duplicate_9_grams = default.duplicate_9_grams),
        only(|rule| rule.duplicate_10_grams = default.duplicate_10_grams),
    ];
    // The second occurrence of n words of one letter has 2n - 1 characters: 9 of 60 are 0.15, 11 of 78 are 0.141, …
    let kept = [60, 79, 100, 125, 155, 190];
    let rejected = [
        "duplicate_5_grams: 0.1525, at most 0.15",
        "duplicate_6_grams: 0.1410, at most 0.14",
        "duplicate_7_grams: 0.1313, at most 0.13",
        "duplicate_8_grams: 0.1210, at most 0.12",
        "duplicate_9_grams: 0.1104, at most 0.11",
        "duplicate_10_grams: 0.1005, at most 0.1",
    ];
    for (n, (rule, (kept, rejected))) in (5..).zip(rules.iter().zip(kept.into_iter().zip(rejected))) {
        let phrase = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"][..n].join(" ");
        let text = format!("{phrase}, {phrase}");
        assert_eq!(judge(rule, &filled(&text, kept)), "", "{n}");
        assert_eq!(judge(rule, &filled(&text, kept - 1)), rejected);
        let shorter = format!("{phrase}, {}", &phrase[..2 * n - 3]);
        assert_eq!(judge(rule, &shorter), "", "{} of {n} words occur again", n - 1);
    }
}

#[test]
fn texts_without_words_are_kept() {
    for text in ["", "\n", "\n\n \n", "—", "!\n!\n"] {
        let kept = judge(&RepetitionRule { duplicate_lines: None, ..RepetitionRule::default() }, text);
        assert_eq!(kept.is_empty(), text != "!\n!\n", "{text:?}: {kept}");
    }
}

#[test]
fn limits_are_shares_and_null_turns_one_off() {
    let rule: RepetitionRule = serde_json::from_str(r#"{"top_2_gram": null, "duplicate_lines": 1.5}"#).unwrap();
    assert_eq!((rule.top_2_gram, rule.top_3_gram), (None, Some(0.18)));
    assert_eq!(rule.check().len(), 1);
    assert_eq!(rule.check()[0].pointer, "/duplicate_lines");
    assert_eq!(judge(&rule, "ha ha ha"), "");
    assert!(judge(&RepetitionRule::default(), "ha ha ha").starts_with("top_2_gram: 1, "));
}

//! Tests which answer is read from which text, by hand.

use super::*;
use crate::verifiers::countdown::CountdownVerifier;
use crate::verifiers::numeric::NumericVerifier;
use crate::verifiers::text::TextVerifier;

fn auto(verifier: &dyn Verifier, expected: &str, answer: &str) -> AnswerCheck {
    check(verifier, Extraction::Auto, expected, answer).unwrap()
}

#[test]
fn numbers_are_read_from_sentences() {
    for (answer, extracted) in [
        ("It is 0 degrees in Bergen.", "0"),
        ("It is -5 degrees.", "-5"),
        ("It is −5°C in Oslo!", "−5"),
        ("The total is $1,234.50.", "$1,234.50"),
        ("That makes 25% of them.", "25"),
        ("About 3/4 of the cake is left.", "3/4"),
        ("You need .5kg of flour", ".5"),
        ("There are 7 apples, so 7 it is.", "7"),
        ("It is 5, that is 5.0.", "5"),
        ("x=5", "5"),
        ("Answer: 12", "12"),
        ("**Answer:** 12", "12"),
        ("**Final Answer: 12**", "12"),
        ("final answer: about 12 apples", "12"),
        ("After 3 days and 4 nights the answer is 12.", "12"),
        ("3 + 4 is seven.\nThe answer is: 7", "7"),
        ("3 + 4\nAnswer:\n7", "7"),
        ("3 and 4 make \\boxed{7}.", "7"),
        ("3 and 4 make \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("From 3 and 4 follows **7**.", "7"),
        ("From 3 and 4 follows `7`.", "7"),
        ("Of 3 and 4 I choose \"4\".", "4"),
        ("In \"Bergen\" it is 0 degrees.", "0"),
        ("On the 3rd there were 9 of CO2.", "9"),
        ("3 + 4\n#### 7", "7"),
    ] {
        let read = auto(&NumericVerifier, "1000", answer);
        assert_eq!((read.extracted.as_deref(), &read.unreadable), (Some(extracted), &None), "{answer}");
        assert!(!read.correct && auto(&NumericVerifier, extracted, answer).correct, "{answer}");
    }
}

#[test]
fn ambiguous_numbers_are_unreadable_and_the_reason_is_told() {
    for (answer, reason) in [
        ("It is 3 or 5 degrees.", "different numbers: 3, 5"),
        ("10-5", "different numbers: 10, 5"),
        ("It is zero degrees.", "no number in the answer"),
        ("", "no number in the answer"),
        ("Answer: 3\nAnswer: 5", "different marked answers: 3, 5"),
        ("\\boxed{3} or \\boxed{5}", "different marked answers: 3, 5"),
        ("It is **3** or **5**.", "different marked answers: 3, 5"),
        ("In 2024 it was 3.", "different numbers: 2024, 3"),
        ("That is 10^3.", "`10^3` is not a number that can be compared"),
        ("That is 12,34.", "`12,34` is not a number that can be compared"),
        ("On 2024/05/01.", "`2024/05/01` is not a number that can be compared"),
    ] {
        let read = auto(&NumericVerifier, "3", answer);
        assert_eq!((read.extracted, read.unreadable.as_deref(), read.correct), (None, Some(reason), false), "{answer}");
    }
}

#[test]
fn answers_that_were_read_before_are_read_alike() {
    for answer in ["5", "5 apples", "$5.00", "5.", "25%", "- 3", "\\frac{1}{2}", "#### 1,234", "7 is it"] {
        let read = auto(&NumericVerifier, "1000", answer);
        assert_eq!((read.extracted.as_deref(), read.correct), (Some(answer), false), "{answer}");
        assert!(auto(&NumericVerifier, answer, answer).correct, "{answer}");
    }
}

#[test]
fn words_are_read_where_they_are_marked() {
    for (answer, extracted) in [
        ("Oslo", Some("Oslo")),
        ("the town of Bergen", Some("the town of Bergen")),
        ("The capital is \"Oslo\".", Some("Oslo")),
        ("The capital is “Oslo”, as everyone knows.", Some("Oslo")),
        ("The capital is **Oslo**.", Some("Oslo")),
        ("It is \\boxed{Oslo}.", Some("Oslo")),
        ("Answer: Oslo.", Some("Oslo")),
        ("The final answer is Oslo.", Some("Oslo")),
        ("The answer is the U.S.", Some("the U.S.")),
        ("The capital of Norway is Oslo.", None),
        ("It is \"Oslo\" or \"Bergen\".", None),
        ("It is\nOslo", None),
    ] {
        let read = auto(&TextVerifier, "Lima", answer);
        assert_eq!(
            (read.extracted.as_deref(), read.unreadable.is_some()),
            (extracted, extracted.is_none()),
            "{answer}"
        );
        assert_eq!(auto(&TextVerifier, "oslo", answer).correct, extracted == Some("Oslo"), "{answer}");
    }
    let sentence = "The capital of Norway is Oslo.";
    let whole = auto(&TextVerifier, sentence, sentence);
    assert!(whole.correct && whole.extracted.as_deref() == Some(sentence), "a whole message may be the answer");
}

#[test]
fn expressions_are_read_whole_or_marked() {
    let of = |answer: &str| auto(&CountdownVerifier, "3*8", answer);
    assert!(of("8*3").correct && of("Answer: 8*3").correct && of("It is `8*3`.").correct);
    assert_eq!(of("8+3").extracted.as_deref(), Some("8+3"));
    assert_eq!(of("I give up at 24.").unreadable.as_deref(), Some("not an answer for `countdown`"));
}

#[test]
fn option_decides_on_texts_with_several_numbers_and_on_extraction() {
    let of = |extraction, answer: &str| check(&NumericVerifier, extraction, "5", answer).unwrap();
    let last = of(Extraction::LastNumber, "It is 3, then 5.");
    assert!(last.correct && last.extracted.as_deref() == Some("5"));
    assert_eq!(of(Extraction::LastNumber, "no idea").unreadable.as_deref(), Some("no number in the answer"));
    let whole = of(Extraction::None, "It is 5.");
    assert_eq!((whole.correct, whole.unreadable.as_deref()), (false, Some("not an answer for `numeric`")));
    assert!(of(Extraction::None, "5").correct);
}

//! Implements the rule `language`: keeps texts in chosen languages.
//!
//! The detector is `whatlang`: trigrams and alphabets, 70 languages with a confidence, one dependency that the program
//! has anyway. `whichlang` is ten times as fast and somewhat better on texts of less than 50 characters, but knows 16
//! languages and has no confidence: text in a seventeenth would pass as one of them.

use crate::filter::judged_text::{JudgedText, each_text};
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result};
use whatlang::{Info, Lang};

/// Bytes of the longest text that is judged as a whole. The detector takes time and memory by the length, and compares
/// no more than the 600 most frequent trigrams.
const WHOLE: usize = 8 << 10;
/// Pieces of a longer text that are judged.
const PIECES: usize = 8;

/// The code of ISO 639-3 of each language, and that of ISO 639-1.
const CODES: [(&str, &str); 70] = [
    ("afr", "af"),
    ("aka", "ak"),
    ("amh", "am"),
    ("ara", "ar"),
    ("aze", "az"),
    ("bel", "be"),
    ("ben", "bn"),
    ("bul", "bg"),
    ("cat", "ca"),
    ("ces", "cs"),
    ("cmn", "zh"),
    ("cym", "cy"),
    ("dan", "da"),
    ("deu", "de"),
    ("ell", "el"),
    ("eng", "en"),
    ("epo", "eo"),
    ("est", "et"),
    ("fin", "fi"),
    ("fra", "fr"),
    ("guj", "gu"),
    ("heb", "he"),
    ("hin", "hi"),
    ("hrv", "hr"),
    ("hun", "hu"),
    ("hye", "hy"),
    ("ind", "id"),
    ("ita", "it"),
    ("jav", "jv"),
    ("jpn", "ja"),
    ("kan", "kn"),
    ("kat", "ka"),
    ("khm", "km"),
    ("kor", "ko"),
    ("lat", "la"),
    ("lav", "lv"),
    ("lit", "lt"),
    ("mal", "ml"),
    ("mar", "mr"),
    ("mkd", "mk"),
    ("mya", "my"),
    ("nep", "ne"),
    ("nld", "nl"),
    ("nob", "nb"),
    ("ori", "or"),
    ("pan", "pa"),
    ("pes", "fa"),
    ("pol", "pl"),
    ("por", "pt"),
    ("ron", "ro"),
    ("rus", "ru"),
    ("sin", "si"),
    ("slk", "sk"),
    ("slv", "sl"),
    ("sna", "sn"),
    ("spa", "es"),
    ("srp", "sr"),
    ("swe", "sv"),
    ("tam", "ta"),
    ("tel", "te"),
    ("tgl", "tl"),
    ("tha", "th"),
    ("tuk", "tk"),
    ("tur", "tr"),
    ("ukr", "uk"),
    ("urd", "ur"),
    ("uzb", "uz"),
    ("vie", "vi"),
    ("yid", "yi"),
    ("zul", "zu"),
];

/// Keeps rows in chosen languages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanguageRule {
    /// Codes of the languages to keep, by ISO 639-1 (`en`) or ISO 639-3 (`eng`).
    #[schemars(length(min = 1))]
    pub languages: Vec<String>,
    /// Text that is judged.
    #[serde(default)]
    pub of: JudgedText,
    /// Least confidence of the detector, below which the language is unknown.
    #[serde(default = "default_confidence")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// Least number of letters, below which the language is unknown.
    #[serde(default = "default_min_letters")]
    pub min_letters: usize,
    /// Treatment of rows in an unknown language.
    #[serde(default)]
    pub unknown: UnknownLanguage,
}

fn default_confidence() -> f64 {
    0.5
}

fn default_min_letters() -> usize {
    20
}

/// Treatment of rows in an unknown language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownLanguage {
    /// Rows are kept, with the reason in their verdict.
    #[default]
    Keep,
    /// Rows are rejected.
    Reject,
}

/// Returns the language with a code.
fn language(code: &str) -> Option<Lang> {
    let (long, _) = CODES.iter().find(|(long, short)| [*long, *short].contains(&code))?;
    Lang::from_code(*long)
}

impl LanguageRule {
    fn verdict(&self, wanted: &[Lang], text: &str) -> RuleVerdict {
        let letters = text.chars().filter(|c| c.is_alphabetic()).take(self.min_letters).count();
        if letters < self.min_letters {
            return self.unknown(&format!("{letters} letters"));
        }
        match whatlang::detect(&sample(text)) {
            None => self.unknown("no letters of a known script"),
            Some(found) if found.confidence() < self.confidence => self.unknown(&shown(&found)),
            Some(found) if wanted.contains(&found.lang()) => RuleVerdict::Keep,
            Some(found) => RuleVerdict::reject("other_language", shown(&found)),
        }
    }

    fn unknown(&self, why: &str) -> RuleVerdict {
        match self.unknown {
            UnknownLanguage::Keep => RuleVerdict::KeepWithReason(format!("unknown_language: {why}")),
            UnknownLanguage::Reject => RuleVerdict::reject("unknown_language", why),
        }
    }
}

/// Returns a text of up to [`WHOLE`] bytes as it is, and of a longer one pieces at equal distances, from its beginning
/// on.
fn sample(text: &str) -> Cow<'_, str> {
    if text.len() <= WHOLE {
        return Cow::Borrowed(text);
    }
    let piece = |i: usize| {
        let start = text.floor_char_boundary(i * (text.len() / PIECES));
        &text[start..text.floor_char_boundary(start + WHOLE / PIECES)]
    };
    Cow::Owned((0..PIECES).map(piece).collect::<Vec<_>>().join(" "))
}

fn shown(found: &Info) -> String {
    format!("{} ({:.2})", found.lang().code(), found.confidence())
}

impl PartOptions for LanguageRule {
    const KIND: &'static str = "language";
    const SUMMARY: &'static str = "keeps texts in chosen languages";
    const DOC: &'static str = "Keeps the rows whose text (`of`: the conversation, the question, the agent's messages)\n\
        is in one of `languages`. The detector (whatlang: trigrams and alphabets) knows 70 languages. Where 16\n\
        of them were possible, it was right for 99% of texts of more than 100 characters, 97% of 51 to 100, 92% of\n\
        21 to 50 and 79% of up to 20 (the benchmark of whichlang 0.1.1). Code and names mislead it. Of a text of more\n\
        than 8 KiB it judges 8 pieces of 1 KiB at equal distances, from the beginning on. The language of a\n\
        text with fewer letters than `min_letters`, or that is found with less than `confidence`, is unknown, and\n\
        `unknown` decides: keep or reject. Related languages, such as Danish and Norwegian, are distinguished with\n\
        little confidence: name both. Reasons: other_language (with the code and the confidence), unknown_language.";
    fn check(&self) -> Vec<OptionProblem> {
        let unknown = |(i, code): (usize, &String)| {
            let problem = || OptionProblem::new(format!("/languages/{i}"), format!("unknown language `{code}`"));
            if language(code).is_some() { None } else { Some(problem().help(known())) }
        };
        let none = || OptionProblem::new("/languages", "no language is named").help(known());
        let mut problems: Vec<_> = self.languages.iter().enumerate().filter_map(unknown).collect();
        problems.extend(self.languages.is_empty().then(none));
        problems.extend(OptionProblem::out_of_range("/confidence", self.confidence, 0.0..=1.0));
        problems
    }
}

fn known() -> String {
    let codes: Vec<String> = CODES.iter().map(|(long, short)| format!("{short} ({long})")).collect();
    format!("use one of {}", codes.join(", "))
}

impl FilterRule for LanguageRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let found = |code: &String| {
            language(code).ok_or_else(|| Error::invalid(format!("unknown language `{code}`")).help(known()))
        };
        let wanted: Vec<Lang> = self.languages.iter().map(found).collect::<Result<_>>()?;
        Ok(each_text(self.of, || (), move |(): &mut (), text: &str| self.verdict(&wanted, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENTENCES: [(&str, &str); 7] = [
        (
            "eng",
            "All human beings are born free and equal in dignity and rights. They are endowed with reason and \
             conscience and should act towards one another in a spirit of brotherhood.",
        ),
        (
            "deu",
            "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen \
             begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
        ),
        (
            "fra",
            "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de \
             conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
        ),
        (
            "spa",
            "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y \
             conciencia, deben comportarse fraternalmente los unos con los otros.",
        ),
        (
            "rus",
            "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и \
             должны поступать в отношении друг друга в духе братства.",
        ),
        ("jpn", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"),
        ("cmn", "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"),
    ];

    fn rule(languages: &[&str]) -> LanguageRule {
        serde_json::from_value(serde_json::json!({"languages": languages})).unwrap()
    }

    fn verdict(rule: &LanguageRule, text: &str) -> RuleVerdict {
        let wanted: Vec<Lang> = rule.languages.iter().map(|code| language(code).unwrap()).collect();
        rule.verdict(&wanted, text)
    }

    #[test]
    fn sentences_are_kept_in_their_language_and_rejected_in_others() {
        for (code, text) in SENTENCES {
            let (_, short) = CODES.iter().find(|(long, _)| *long == code).unwrap();
            assert_eq!(verdict(&rule(&[short, "kor"]), text), RuleVerdict::Keep, "{code}");
            let others: Vec<&str> = CODES.iter().map(|(long, _)| *long).filter(|long| *long != code).collect();
            let RuleVerdict::Reject { code: reason, detail } = verdict(&rule(&others), text) else {
                panic!("{code} is kept as another language");
            };
            assert_eq!(reason, "other_language");
            assert!(detail.starts_with(code), "{detail}");
        }
    }

    #[test]
    fn short_and_doubtful_texts_are_unknown() {
        let mut english = rule(&["en"]);
        let twenty = "abcde fghij klmno pqrst";
        assert_eq!(verdict(&english, &twenty[1..]), RuleVerdict::KeepWithReason("unknown_language: 19 letters".into()));
        english.unknown = UnknownLanguage::Reject;
        assert_eq!(verdict(&english, "1 + 1 = 2"), RuleVerdict::reject("unknown_language", "0 letters"));
        english.min_letters = 0;
        let none = RuleVerdict::reject("unknown_language", "no letters of a known script");
        assert_eq!(verdict(&english, "1 + 1 = 2"), none);
        let (_, text) = SENTENCES[0];
        // Nearly half of the letters are kana.
        english.confidence = 1.0;
        let (_, japanese) = SENTENCES[5];
        assert_eq!(verdict(&english, japanese), RuleVerdict::reject("other_language", "jpn (1.00)"));
        // One kana among many ideographs: Chinese or Japanese, with half confidence.
        let mixed = format!("{}の", "人".repeat(30));
        assert_eq!(verdict(&english, &mixed), RuleVerdict::reject("unknown_language", "cmn (0.50)"));
        english.confidence = 0.5;
        assert_eq!(verdict(&english, &mixed), RuleVerdict::reject("other_language", "cmn (0.50)"));
        assert_eq!(verdict(&english, text), RuleVerdict::Keep);
    }

    #[test]
    fn long_texts_are_judged_by_pieces_of_all_their_parts() {
        let whole = "é".repeat(WHOLE / 2);
        assert!(matches!(sample(&whole), Cow::Borrowed(text) if text == whole));
        // Positions inside a letter of two bytes move to its begin.
        let longer = format!("a{}", "é".repeat(PIECES * WHOLE));
        let sampled = sample(&longer);
        let pieces: Vec<&str> = sampled.split(' ').collect();
        assert_eq!(pieces.len(), PIECES);
        assert!(pieces.iter().all(|piece| (WHOLE / PIECES - 2..=WHOLE / PIECES).contains(&piece.len())), "{pieces:?}");
        let rule = rule(&["en"]);
        let [english, german] = [SENTENCES[0].1, SENTENCES[1].1].map(|text| format!("{text} ").repeat(1000));
        let verdict = |text: &str| verdict(&rule, text);
        assert_eq!(verdict(&english), RuleVerdict::Keep);
        assert!(matches!(verdict(&german), RuleVerdict::Reject { code: "other_language", .. }));
        // A short begin in another language does not decide.
        assert_eq!(verdict(&format!("{} {english}", SENTENCES[1].1)), RuleVerdict::Keep);
    }

    #[test]
    fn every_language_of_the_detector_has_its_codes_once() {
        let mut known: Vec<&str> = Lang::all().iter().map(|lang| lang.code()).collect();
        known.sort_unstable();
        assert_eq!(known, CODES.map(|(long, _)| long));
        let mut codes: Vec<&str> = CODES.iter().flat_map(|(long, short)| [*long, *short]).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 2 * CODES.len());
        assert!(CODES.iter().all(|(long, short)| language(long) == language(short) && short.len() == 2));
    }

    #[test]
    fn unknown_codes_are_named_with_the_known_ones() {
        let problems = rule(&["en", "english"]).check();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].pointer, "/languages/1");
        assert!(problems[0].help.as_ref().unwrap().contains("de (deu)"));
        assert_eq!(rule(&[]).check()[0].pointer, "/languages");
        let doubtful = LanguageRule { confidence: 1.5, ..rule(&["eng"]) };
        assert_eq!(doubtful.check()[0].pointer, "/confidence");
    }
}

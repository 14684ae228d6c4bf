//! Checks candidates of personal data: their surroundings, ranges and check digits.

use std::net::Ipv4Addr;
use std::ops::Range;

/// Part of a text that has the form of personal data; all of it is ASCII.
pub struct Candidate<'a> {
    pub text: &'a str,
    pub place: Range<usize>,
}

/// Top-level domains of more than two letters.
const DOMAINS: &str = " academy agency app art biz blog center cloud club com company design dev digital edu email \
    energy finance foundation gmbh gov group health info int institute io jobs law legal life live media mil mobi \
    museum name net network news online org page pro school science services shop site social software solutions space \
    store studio systems team tech technology university website wiki work world xyz ";

/// Words before numbers with dots that are no addresses.
const VERSION_WORDS: &str = " article build chapter clause figure release revision rule section table ver version \
    versions v ";

/// Passwords of examples.
const EXAMPLE_PASSWORDS: &str = " changeme example pass passwd password pw pwd secret token xxx xxxx xxxxx ";

/// Lengths of the account numbers of countries.
const IBAN_LENGTHS: &str = " AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 \
    EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 \
    LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 \
    SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 ";

impl Candidate<'_> {
    fn matched(&self) -> &str {
        &self.text[self.place.clone()]
    }
    /// Returns the byte before the candidate; a space at the start of the text.
    fn before(&self) -> u8 {
        self.place.start.checked_sub(1).map_or(b' ', |i| self.text.as_bytes()[i])
    }
    /// Returns the bytes at and after `end`; spaces at the end of the text.
    fn after(&self, end: usize) -> [u8; 2] {
        let byte = |i: usize| self.text.as_bytes().get(i).copied().unwrap_or(b' ');
        [byte(end), byte(end + 1)]
    }
    /// Whether neither a word nor a longer number with dots continues at `end`.
    fn ends_at(&self, end: usize) -> bool {
        let [next, second] = self.after(end);
        !(is_word(next) || matches!(next, b'.' | b'-') && second.is_ascii_digit())
    }
    /// Whether the candidate is in a URL before the first slash of its path, where users and passwords are.
    fn is_in_authority(&self) -> bool {
        let start = self.place.start;
        let before = &self.text.as_bytes()[start.saturating_sub(128)..start];
        let word = before.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        let scheme = word.windows(3).rposition(|part| part == b"://");
        scheme.is_some_and(|i| !word[i + 3..].iter().any(|byte| matches!(byte, b'/' | b'?' | b'#')))
    }
    /// Returns the last word before the candidate, in small letters.
    fn word_before(&self) -> String {
        let before = self.text[..self.place.start].trim_end_matches([' ', ':', '"', '\'', '`']);
        let word = before.bytes().rev().take_while(u8::is_ascii_alphabetic).take(12).count();
        before[before.len() - word..].to_ascii_lowercase()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a list of words with a space before and after each has this one.
fn is_listed(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split(' ').any(|listed| listed == word)
}

fn digits(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.bytes().filter(u8::is_ascii_digit).map(|digit| u32::from(digit - b'0'))
}

/// Checks an address: a known domain, and no call or matrix product such as `x@w.to(device)`.
pub fn email(candidate: &Candidate<'_>) -> Option<Range<usize>> {
    let matched = candidate.matched();
    let (user, host) = matched.split_once('@')?;
    let domain = host.rsplit('.').next()?;
    let domain =
        if domain.bytes().all(|byte| byte.is_ascii_uppercase()) { domain.to_lowercase() } else { domain.into() };
    let [next, second] = candidate.after(candidate.place.end);
    let goes_on = is_word(next) || matches!(next, b'(' | b'[' | b'-' | b'@') || (next == b'.' && is_word(second));
    // The letter after a backslash belongs to an escape such as `\n`.
    let escape = usize::from(candidate.before() == b'\\' && matches!(user.as_bytes()[0], b'n' | b'r' | b't'));
    let user = &user[escape..];
    let skipped = user.len() - user.trim_start_matches(['.', '-', '%', '+']).len();
    let user = &user[skipped..];
    let is_remote = (user == "git" && next == b':') || candidate.is_in_authority();
    let is_product = user.len() == 1 && host.find('.') == Some(1);
    let is_lower = domain.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_known = is_lower && (domain.len() == 2 || is_listed(DOMAINS, &domain));
    let is_address = !user.is_empty() && !user.ends_with('.') && !user.contains("..") && !host.starts_with('-');
    let start = candidate.place.start + escape + skipped;
    let is_handle = candidate.before() == b'@';
    (is_known && is_address && !goes_on && !is_remote && !is_product && !is_handle)
        .then_some(start..candidate.place.end)
}

/// Checks the groups of digits of a phone number, and that it is no sum, decimal or part of a longer number.
pub fn phone(candidate: &Candidate<'_>) -> Option<Range<usize>> {
    let (matched, start, before) = (candidate.matched(), candidate.place.start, candidate.before());
    if is_word(before) || matches!(before, b'.' | b'-' | b'/' | b'+' | b')' | b'$' | b'#' | b'@') {
        return None;
    }
    if !matched.starts_with('+') {
        let is_mixed = matched.contains('.') && matched.contains('-');
        return (!is_mixed && candidate.ends_at(candidate.place.end)).then(|| candidate.place.clone());
    }
    // The expression may take a number after the phone number.
    let ends = matched.match_indices([' ', '.', '-']).map(|(i, _)| i);
    let ends: Vec<usize> = ends.chain([matched.len()]).collect();
    let end =
        ends.into_iter().rev().find(|end| is_international(&matched[1..*end]) && candidate.ends_at(start + end))?;
    Some(start..start + end)
}

/// Whether groups of digits are a phone number after its `+`.
fn is_international(number: &str) -> bool {
    let groups: Vec<&str> = number.split([' ', '.', '-', '(', ')']).filter(|group| !group.is_empty()).collect();
    let length: usize = groups.iter().map(|group| group.len()).sum();
    let short = groups.iter().skip(1).filter(|group| group.len() == 1).count();
    let opened = number.matches('(').count();
    let is_balanced = opened <= 1 && opened == number.matches(')').count();
    let is_decimal = number.contains('.') && (groups.len() < 3 || groups.iter().skip(1).all(|group| group.len() == 3));
    let least = if groups.len() == 1 { 10 } else { 8 };
    let is_coded = groups.len() == 1 || groups[0].len() <= 3;
    (least..=15).contains(&length) && is_coded && short <= 1 && is_balanced && !is_decimal
}

/// Checks the ranges of an address, and that it is no version, heading or part of a longer number.
pub fn ip(candidate: &Candidate<'_>, private: bool) -> Option<Range<usize>> {
    let address: Ipv4Addr = candidate.matched().parse().ok()?;
    let (before, end) = (candidate.before(), candidate.place.end);
    let [next, second] = candidate.after(end);
    let goes_on = is_word(next) || next == b'-' || (next == b'.' && is_word(second));
    let joined = is_word(before) || matches!(before, b'.' | b'-' | b'+' | b'~' | b'^' | b'$');
    let text = &candidate.text[..candidate.place.start];
    let is_compared = ["==", ">=", "<=", "!=", "~="].iter().any(|sign| text.trim_end().ends_with(sign));
    let in_path = before == b'/' && !text.ends_with("//");
    let is_version = is_compared || in_path || is_listed(VERSION_WORDS, &candidate.word_before());
    // Versions and numbers of sections have small parts; one of 27,000 addresses has.
    let is_small = is_public(address) && address.octets().iter().all(|part| *part < 20);
    if goes_on || joined || is_version || is_small {
        return None;
    }
    (private || is_public(address)).then_some(candidate.place.clone())
}

/// Whether an address may belong to a host of the internet.
fn is_public(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let reserved = first == 0 || first >= 224 || (first == 100 && second & 0xc0 == 64);
    let special = (first == 198 && second & 0xfe == 18) || (first == 192 && second == 0 && third == 0);
    let local = address.is_private() || address.is_loopback() || address.is_link_local();
    !(reserved || special || local || address.is_documentation())
}

/// Checks the issuer, the length and the check digit of a card number.
pub fn credit_card(candidate: &Candidate<'_>) -> Option<Range<usize>> {
    let (matched, end, before) = (candidate.matched(), candidate.place.end, candidate.before());
    let joined = is_word(before) || matches!(before, b'.' | b'-' | b'+' | b'*' | b'/' | b'^' | b'$');
    let [next, second] = candidate.after(end);
    let is_formula = matches!(next, b'*' | b'/' | b'^' | b'+');
    if joined || is_formula || is_word(next) || (matches!(next, b'.' | b'-' | b',') && second.is_ascii_digit()) {
        return None;
    }
    let number: Vec<u32> = digits(matched).collect();
    let prefix = |n: usize| number[..n].iter().fold(0, |all, digit| all * 10 + digit);
    let is_issued = matches!(
        (number.len(), prefix(2), prefix(4)),
        (15, 34 | 37, _)
            | (14, 36 | 38, _)
            | (14, _, 3000..=3059)
            | (16, 40..=49 | 51..=55 | 62 | 65, _)
            | (16, _, 2221..=2720 | 3528..=3589 | 6011 | 6440..=6499)
            | (19, 40..=49 | 62, _)
    );
    (is_issued && luhn(&number)).then_some(candidate.place.clone())
}

/// Whether the last digit is the check digit of the others (Luhn), and the digits differ.
fn luhn(number: &[u32]) -> bool {
    let doubled = |digit: u32| if digit > 4 { 2 * digit - 9 } else { 2 * digit };
    let terms = number.iter().rev().enumerate().map(|(i, digit)| if i % 2 == 1 { doubled(*digit) } else { *digit });
    terms.sum::<u32>().is_multiple_of(10) && number.iter().any(|digit| *digit != number[0])
}

/// Checks the country, its length and the check digits of an account number.
pub fn iban(candidate: &Candidate<'_>) -> Option<Range<usize>> {
    let matched = candidate.matched();
    let country = &matched[..2];
    let length: usize = IBAN_LENGTHS.split(' ').find_map(|entry| entry.strip_prefix(country)?.parse().ok())?;
    // The expression may take a word after the number.
    let places: Vec<(usize, u8)> = matched.bytes().enumerate().filter(|(_, byte)| *byte != b' ').collect();
    let number = places.get(..length)?;
    let end = candidate.place.start + number.last()?.0 + 1;
    let rotated = number[4..].iter().chain(&number[..4]);
    let remainder = rotated.fold(0, |all: u32, (_, byte)| match *byte {
        digit @ b'0'..=b'9' => (all * 10 + u32::from(digit - b'0')) % 97,
        letter => (all * 100 + u32::from(letter - b'A') + 10) % 97,
    });
    (remainder == 1 && !is_word(candidate.before()) && !is_word(candidate.after(end)[0]))
        .then_some(candidate.place.start..end)
}

/// Returns the user and the password of a URL, unless they are places to fill or those of an example.
pub fn url_credentials(candidate: &Candidate<'_>) -> Option<Range<usize>> {
    let matched = candidate.matched();
    let start = matched.find("://")? + 3;
    let end = matched.rfind('@')?;
    let (user, password) = matched[start..end].split_once(':')?;
    let is_place = password.starts_with(['$', '%', '*']) || user.starts_with(['$', '%']);
    let is_example = is_listed(EXAMPLE_PASSWORDS, &password.to_ascii_lowercase());
    (!is_place && !is_example).then_some(candidate.place.start + start..candidate.place.start + end)
}

/// Checks that a key looks random: not a name such as `sk-loading-indicator-large`, and not a placeholder.
pub fn api_key(candidate: &Candidate<'_>) -> Option<Range<usize>> {
    let matched = candidate.matched().trim_end_matches(['-', '_']);
    let end = candidate.place.start + matched.len();
    let before = candidate.before();
    let has = |test: fn(&u8) -> bool| matched.bytes().skip(3).any(|byte| test(&byte));
    let has_digit = has(u8::is_ascii_digit);
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let mut different: Vec<u8> = matched.bytes().collect();
    different.sort_unstable();
    different.dedup();
    let is_part = |part: &str| part.len() >= 16 && part.bytes().any(|byte| byte.is_ascii_digit());
    let is_random = different.len() >= 10
        && match matched.strip_prefix("sk-") {
            Some(key) => key.split(['-', '_']).any(is_part),
            None => has_digit || is_mixed,
        };
    (is_random && !is_word(before) && before != b'-' && !is_word(candidate.after(end)[0]))
        .then_some(candidate.place.start..end)
}

//! Finds a job by the key of its attempt: the job's comment lists the keys of its members.
//!
//! The controller keeps the comment as long as it knows the job, with or without accounting, and `squeue` prints it. A
//! comment has at most 1,024 bytes, so an array's comment contains only the first 16 of the 32 digits of each key.

use super::ids::JobId;

/// Bytes that Slurm takes as a comment (`MAX_COMMENT_LEN`, measured with 22.05).
const LONGEST: usize = 1_024;
/// Digits of a key in the comment of an array: 64 bits.
const DIGITS: usize = 16;
const PREFIX: &str = "trainyard-";

/// Members of the largest array.
pub(super) const MEMBERS: usize = (LONGEST - PREFIX.len() + 1) / (DIGITS + 1);

/// Returns the comment of a job of one attempt or of an array of at most [`MEMBERS`], by their keys in order.
pub(super) fn comment(keys: &[String]) -> String {
    match keys {
        [one] => one.clone(),
        several => {
            let short = |key: &String| digits(key).get(..DIGITS).unwrap_or(digits(key)).to_string();
            format!("{PREFIX}{}", several.iter().map(short).collect::<Vec<_>>().join(","))
        }
    }
}

/// Returns the member of job number `job` that has this key, according to the job's comment; `None` if no member has
/// it.
pub(super) fn member(job: u32, comment: &str, key: &str) -> Option<JobId> {
    let listed: Vec<&str> = comment.strip_prefix(PREFIX)?.split(',').collect();
    let at = listed.iter().position(|short| short.len() >= DIGITS && digits(key).starts_with(short))?;
    let member = if listed.len() > 1 { Some(u32::try_from(at).ok()?) } else { None };
    Some(JobId { job, member })
}

fn digits(key: &str) -> &str {
    key.strip_prefix(PREFIX).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> String {
        format!("{PREFIX}{:032x}", (n as u128 + 1) << 70)
    }

    #[test]
    fn every_member_of_the_largest_array_is_found() {
        let keys: Vec<String> = (0..MEMBERS).map(key).collect();
        let text = comment(&keys);
        assert!((LONGEST - DIGITS..=LONGEST).contains(&text.len()), "{}", text.len());
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(member(9, &text, key).unwrap().to_string(), format!("9_{at}"));
        }
        assert_eq!(member(9, &text, &key(MEMBERS)), None);
    }

    #[test]
    fn single_attempt_has_no_member_index() {
        assert_eq!(comment(&[key(3)]), key(3));
        assert_eq!(member(9, &key(3), &key(3)).unwrap().to_string(), "9");
        assert_eq!(member(9, &key(3), &key(4)), None);
    }

    #[test]
    fn foreign_comments_match_no_key() {
        for text in ["", "(null)", "trainyard-", "trainyard-,", "my job", "trainyard-00", &key(1)[10..]] {
            assert_eq!(member(9, text, &key(1)), None, "{text:?}");
        }
    }
}

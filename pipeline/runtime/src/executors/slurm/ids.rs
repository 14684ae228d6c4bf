//! Parses the names of jobs that Slurm prints: `123`, `123_4` for a member of an array, `123_[4-7,9:2%3]` for several
//! members.

use std::fmt;

/// One job, or one member of an array of jobs. Its text is the attempt's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct JobId {
    /// Number of the job, or of the array.
    pub job: u32,
    /// Index in the array.
    pub member: Option<u32>,
}

impl JobId {
    /// Parses `123` and `123_4`.
    pub fn parse(text: &str) -> Option<Self> {
        let (job, member) = match text.split_once('_') {
            Some((job, member)) => (job, Some(number(member)?)),
            None => (text, None),
        };
        Some(Self { job: number(job)?, member })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            Some(member) => write!(f, "{}_{member}", self.job),
            None => write!(f, "{}", self.job),
        }
    }
}

/// Jobs named by one line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobSet {
    /// Number of the job, or of the array.
    pub job: u32,
    members: JobMembers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum JobMembers {
    /// The job itself. For an array: its members without separate lines.
    Itself,
    Among {
        ranges: Vec<MemberRange>,
        /// The list was cut off, so any later member may be meant.
        cut_off: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemberRange {
    first: u32,
    last: u32,
    step: u32,
}

impl JobSet {
    /// Parses a name; `None` for jobs of several parts (`12+0`), steps (`12.batch`), and anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((job, rest)) = text.split_once("_[") else {
            let id = JobId::parse(text)?;
            let one =
                |at| JobMembers::Among { ranges: vec![MemberRange { first: at, last: at, step: 1 }], cut_off: false };
            return Some(Self { job: id.job, members: id.member.map_or(JobMembers::Itself, one) });
        };
        // `%` precedes the number that may run at once.
        let list = rest.strip_suffix(']').unwrap_or(rest);
        let list = list.split('%').next().unwrap_or(list);
        let cut_off = list.ends_with("...");
        let list = list.trim_end_matches('.').trim_end_matches(',');
        let ranges = list.split(',').map(range).collect::<Option<_>>()?;
        Some(Self { job: number(job)?, members: JobMembers::Among { ranges, cut_off } })
    }
    /// Returns whether the line names this job.
    pub fn names(&self, id: JobId) -> bool {
        if self.job != id.job {
            return false;
        }
        match (&self.members, id.member) {
            (JobMembers::Itself, None) => true,
            (JobMembers::Among { ranges, cut_off }, Some(member)) => {
                ranges.iter().any(|r| r.has(member)) || *cut_off && ranges.iter().all(|r| r.last < member)
            }
            _ => false,
        }
    }
    /// Returns whether the line covers the remaining members of the array of this member.
    pub fn is_rest_of_its_array(&self, id: JobId) -> bool {
        self.job == id.job && id.member.is_some() && self.members == JobMembers::Itself
    }
}

impl MemberRange {
    fn has(self, member: u32) -> bool {
        (self.first..=self.last).contains(&member) && (member - self.first).is_multiple_of(self.step)
    }
}

fn range(text: &str) -> Option<MemberRange> {
    let (ends, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
    Some(MemberRange { first: number(first)?, last: number(last)?, step: number(step)?.max(1) })
}

/// Parses digits only: `parse` would accept a sign.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_round_trip() {
        for text in ["1", "123_0", "4294967295_1000"] {
            assert_eq!(JobId::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "_", "1_", "_1", "+1", "-1", "1.batch", "12+0", "1_[2]", "1;here", "4294967296", " 1", "x"] {
            assert_eq!(JobId::parse(text), None, "{text:?}");
        }
    }

    fn named(text: &str, among: std::ops::Range<u32>) -> Vec<u32> {
        let jobs = JobSet::parse(text).unwrap();
        among.filter(|m| jobs.names(JobId { job: 6, member: Some(*m) })).collect()
    }

    #[test]
    fn member_lists_are_parsed() {
        assert_eq!(named("6_[2-5%2]", 0..9), [2, 3, 4, 5]);
        assert_eq!(named("6_[0,3-4,7]", 0..9), [0, 3, 4, 7]);
        assert_eq!(named("6_[1-7:3]", 0..9), [1, 4, 7]);
        assert_eq!(named("6_8", 0..20), [8]);
        assert_eq!(named("6_[0,2,...]", 0..5), [0, 2, 3, 4]);
        assert!(named("7_[0-8]", 0..9).is_empty() && named("6", 0..9).is_empty());
        let one = JobId { job: 6, member: None };
        assert!(JobSet::parse("6").unwrap().names(one));
        assert!(!JobSet::parse("6_[0-3]").unwrap().names(one));
        assert!(JobSet::parse("6").unwrap().is_rest_of_its_array(JobId { job: 6, member: Some(3) }));
        assert!(!JobSet::parse("6").unwrap().is_rest_of_its_array(one));
    }

    #[test]
    fn foreign_names_are_not_parsed() {
        for text in ["", "6_[", "6_[]", "6_[a-b]", "6_[1-]", "6+1", "6.0", "JOBID", "6_[1-2"] {
            let jobs = JobSet::parse(text);
            assert!(jobs.is_none() || text == "6_[1-2", "{text:?}: {jobs:?}");
        }
    }
}

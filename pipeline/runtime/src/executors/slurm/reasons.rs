//! Explains Slurm's reasons why jobs wait, and identifies which of them are permanent.
//!
//! The reasons are those of `squeue`'s column REASON (`man squeue`, JOB REASON CODES, 22.05). The many limits of
//! accounts and QOS are named by a pattern: `AssocGrpGRES`, `QOSMaxCpuPerUserLimit`.

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PendingReason {
    /// The job may start later. `None`: Slurm gives no reason yet.
    Pending(Option<String>),
    /// The job can never start as submitted.
    Never(String),
    /// Slurm requeued it after it could not be started.
    Requeued,
}

/// Classifies Slurm's reason for waiting.
pub(super) fn explain(reason: &str) -> PendingReason {
    if reason.is_empty() {
        return PendingReason::Pending(None);
    }
    // `ReqNodeNotAvail, UnavailableNodes:n[1-2]`: the detail is in the reason itself.
    let word = reason.split([',', ' ', '(']).next().unwrap_or(reason);
    let with_meaning = |meaning: &str| Some(format!("{reason} ({meaning})"));
    if let Some(meaning) = never(word) {
        return PendingReason::Never(format!("{reason} ({meaning})"));
    }
    if matches!(word, "launch_failed_requeued_held" | "JobHoldMaxRequeue") || reason.starts_with("launch failed") {
        return PendingReason::Requeued;
    }
    match passing(word) {
        Some(meaning) => PendingReason::Pending(with_meaning(meaning)),
        None => PendingReason::Pending(Some(reason.to_string())),
    }
}

/// Returns the meaning of a reason that waiting does not resolve, such as a limit on the size of one job.
fn never(word: &str) -> Option<&'static str> {
    let of_one_job = (word.starts_with("QOS") || word.starts_with("Assoc"))
        && (word.contains("PerJob") || word.contains("WallDuration") || word.contains("PerNode"));
    Some(match word {
        "BadConstraints" => "no node can ever satisfy its request",
        "DependencyNeverSatisfied" => "a job that it depends on failed",
        "InvalidAccount" | "AccountNotAllowed" => "its account is not allowed here",
        "InvalidQOS" | "QOSNotAllowed" => "its QOS is not allowed here",
        "PartitionNodeLimit" => "it requests more nodes than its partition allows per job",
        "PartitionTimeLimit" => {
            "it requests more time than its partition allows per job; lower `time_limit` of the pool or `timeout`"
        }
        "DeadLine" => "its deadline can no longer be met",
        _ if of_one_job => "it requests more than its account or QOS allows per job",
        _ => return None,
    })
}

fn passing(word: &str) -> Option<&'static str> {
    let limit = word.starts_with("QOS") || word.starts_with("Assoc") || word.starts_with("Max");
    Some(match word {
        "Resources" => "it is next, and waits until nodes are free",
        "Priority" => "jobs of higher priority come first",
        "JobArrayTaskLimit" => "its array runs as many jobs as it may at once",
        "BeginTime" => "its start time has not come",
        "Dependency" => "it waits for other jobs",
        "Licenses" => "it waits for a license",
        "Reservation" => "it waits for its reservation",
        "ReservationDeleted" => "its reservation is gone: an administrator must release it",
        "ReqNodeNotAvail" => "nodes that it needs are down, drained or reserved",
        "NodeDown" => "a node that it needs is down",
        "PartitionDown" | "PartitionInactive" => "its partition starts no jobs now",
        "JobHeldAdmin" => "an administrator holds it",
        "JobHeldUser" => "a user holds it: release it with `scontrol release`",
        "Cleaning" => "its last run is still being cleaned up",
        "Prolog" => "its nodes are being prepared",
        "FrontEndDown" | "SchedDefer" => "the scheduler will look at it later",
        "OutOfMemory" | "SystemFailure" => "Slurm itself had a fault",
        "BurstBufferResources" | "BurstBufferStageIn" => "it waits for its burst buffer",
        _ if word.contains("Minutes") => "the time that its account or QOS may use is used up",
        _ if limit && word.contains("Grp") => "its account or QOS runs as much as it may",
        _ if limit => "this user runs as much as the account or QOS allows",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_explained_and_keep_their_detail() {
        for (reason, part) in [
            ("Resources", "Resources (it is next"),
            ("Priority", "higher priority"),
            ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "UnavailableNodes:n[1-2] (nodes that it needs are down"),
            ("QOSMaxJobsPerUserLimit", "this user runs as much"),
            ("AssocGrpGRES", "its account or QOS runs as much"),
            ("AssocGrpCPUMinutesLimit", "is used up"),
            ("QOSGrpNodeLimit", "its account or QOS runs as much"),
        ] {
            let PendingReason::Pending(Some(text)) = explain(reason) else { panic!("{reason}") };
            assert!(text.contains(part) && text.starts_with(reason), "{reason}: {text}");
        }
        assert_eq!(explain(""), PendingReason::Pending(None));
        assert_eq!(explain("NewInLaterVersions"), PendingReason::Pending(Some("NewInLaterVersions".into())));
    }

    #[test]
    fn permanent_reasons_are_distinguished() {
        for reason in [
            "BadConstraints",
            "DependencyNeverSatisfied",
            "PartitionTimeLimit",
            "PartitionNodeLimit",
            "InvalidQOS",
            "QOSMaxCpuPerJobLimit",
            "AssocMaxWallDurationPerJobLimit",
            "QOSMaxGRESPerJob",
        ] {
            assert!(matches!(explain(reason), PendingReason::Never(_)), "{reason}");
        }
        for reason in ["QOSMaxCpuPerUserLimit", "AssocMaxJobsLimit", "MaxMemPerLimit", "JobHeldUser"] {
            assert!(matches!(explain(reason), PendingReason::Pending(_)), "{reason}");
        }
        assert_eq!(explain("launch failed requeued held"), PendingReason::Requeued);
    }
}

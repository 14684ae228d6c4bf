//! Tests that slots are taken and released. The holders are handles of this process, since a lock belongs to a handle
//! and not to a process.

use super::record::create_locked;
use super::*;
use std::io::Write as _;
use tempfile::TempDir;
use trainyard_core::ErrorKind;
use trainyard_engine::Gpu;

fn machine() -> PoolMachine {
    PoolMachine {
        name: "this".into(),
        cpus: 2,
        memory: 100,
        gpus: vec![Gpu { index: 0, memory: 1 }, Gpu { index: 1, memory: 1 }],
    }
}
fn share(cpus: u32, gpus: &[u32]) -> MachineShare {
    MachineShare { machine: "this".into(), cpus, memory: 10, gpus: gpus.to_vec() }
}
fn slots(folder: &TempDir) -> Slots {
    Slots::new(folder.path().join("slots"), machine())
}
fn whole() -> SlotRecord {
    SlotRecord { cpus: 2, gpus: vec![1], ..SlotRecord::default() }
}

#[test]
fn slots_are_taken_and_released() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let first = slots.try_take(&share(2, &[0]), &SlotHolder::default()).unwrap().unwrap();
    assert!(slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap().is_none());
    assert!(slots.try_take(&share(0, &[0]), &SlotHolder::default()).unwrap().is_none(), "that GPU is taken");
    assert!(slots.try_take(&share(0, &[1]), &SlotHolder::default()).unwrap().is_some());
    assert_eq!(slots.used_by_others().unwrap(), ExternalUsage::default(), "its own are not others'");
    drop(first);
    assert!(slots.try_take(&share(2, &[0]), &SlotHolder::default()).unwrap().is_some());
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("slots")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [LOCK], "what was given back leaves no file");
}

#[test]
fn holdings_are_visible_to_other_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (slots(&folder), slots(&folder));
    let held = one.try_take(&share(1, &[1]), &SlotHolder::default()).unwrap().unwrap();
    assert_eq!(other.used_by_others().unwrap(), ExternalUsage { cpus: 1, memory: 10, gpus: vec![1] });
    assert!(other.try_take(&share(2, &[]), &SlotHolder::default()).unwrap().is_none());
    let beside = other.try_take(&share(1, &[0]), &SlotHolder::default()).unwrap().unwrap();
    assert_eq!(one.used_by_others().unwrap(), ExternalUsage { cpus: 1, memory: 10, gpus: vec![0] });
    drop(held);
    drop(beside);
    assert!(other.try_take(&share(2, &[0, 1]), &SlotHolder::default()).unwrap().is_some());
}

#[test]
fn holding_counts_only_while_locked() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap());
    // Like a process in another container: its id is unknown, but it holds the lock.
    let holder = create_locked(&slots.path(7), &whole()).unwrap();
    assert_eq!(slots.used_by_others().unwrap(), ExternalUsage { cpus: 2, memory: 0, gpus: vec![1] });
    assert!(slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap().is_none());
    // State after a kill or a reboot: the file remains, the lock is released.
    drop(holder);
    assert!(slots.path(7).exists());
    assert_eq!(slots.used_by_others().unwrap(), ExternalUsage::default());
    assert!(!slots.path(7).exists(), "the leftover is removed");
    std::fs::write(slots.path(0), serde_json::to_vec(&whole()).unwrap()).unwrap();
    assert!(slots.try_take(&share(2, &[1]), &SlotHolder::default()).unwrap().is_some());
}

#[test]
fn inherited_holding_outlives_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap());
    let holder = create_locked(&slots.path(0), &whole()).unwrap();
    let sleeper = || {
        let mut command = std::process::Command::new("sleep");
        command.arg("600");
        command
    };
    let (mut heir, mut stranger) = {
        let mut command = sleeper();
        lend(&holder, &mut command).unwrap();
        // Started while the lock is lent, but not by the command that it is lent to.
        let stranger = sleeper().spawn().unwrap();
        (command.spawn().unwrap(), stranger)
    };
    drop(holder);
    assert_eq!(slots.used_by_others().unwrap(), ExternalUsage { cpus: 2, memory: 0, gpus: vec![1] });
    heir.kill().unwrap();
    heir.wait().unwrap();
    assert_eq!(
        slots.used_by_others().unwrap(),
        ExternalUsage::default(),
        "what is lent to one is not lent to the next"
    );
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn holdings_of_other_hosts_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap());
    let name = |number: u64| folder.path().join(format!("slots/{}.example.{number}", slots.0.host));
    let _holder = create_locked(&name(0), &whole()).unwrap();
    drop(create_locked(&name(1), &whole()).unwrap());
    assert_eq!(slots.used_by_others().unwrap(), ExternalUsage::default());
    assert!(slots.try_take(&share(2, &[1]), &SlotHolder::default()).unwrap().is_some());
    assert!(name(0).exists() && name(1).exists());
}

#[test]
fn unreadable_holding_keeps_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap());
    let mut holder = create_locked(&slots.path(0), &whole()).unwrap();
    holder.write_all(b"of another version").unwrap();
    let held = slots.try_take(&share(2, &[]), &SlotHolder::default()).unwrap().unwrap();
    assert_eq!(held.number, 1);
}

#[test]
fn reading_creates_no_files() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(slots(&folder).used_by_others().unwrap(), ExternalUsage::default());
    assert!(!folder.path().join("slots").exists());
}

#[tokio::test]
async fn oversized_share_is_refused_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let large = MachineShare { memory: 101, ..share(3, &[0, 5]) };
    let (_sender, mut control) = watch::channel(Control::Run);
    let error = slots
        .acquire(&Grant::new("p", "local", vec![large]), &SlotHolder::default(), &mut control, |_| panic!("it waits"))
        .await
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    for word in ["needs 3 CPUs; it has 2", "memory", "GPU 5", "site file"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let unknown = Slots::new(folder.path(), PoolMachine { memory: 0, ..machine() });
    assert!(
        unknown.try_take(&MachineShare { memory: 1 << 50, ..share(1, &[]) }, &SlotHolder::default()).unwrap().is_some(),
        "0 bytes mean unknown"
    );
}

#[tokio::test]
async fn waiting_is_reported_and_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let first = SlotHolder { user: 1, run: "20261122-1".into(), workflow: "quickstart".into(), stage: "rl".into() };
    let _held = slots.try_take(&share(2, &[]), &first).unwrap().unwrap();
    let (sender, mut control) = watch::channel(Control::Run);
    let (reported, mut reports) = watch::channel(String::new());
    let (slots, share) = (slots.clone(), share(1, &[]));
    let waiting = tokio::spawn(async move {
        slots
            .acquire(&Grant::new("p", "local", vec![share]), &SlotHolder::default(), &mut control, move |holders| {
                let _ = reported.send(holders);
            })
            .await
            .map(|_| ())
    });
    let holders = reports.wait_for(|reported| !reported.is_empty()).await.unwrap().clone();
    assert!(holders.starts_with("held by run 20261122-1 (quickstart, rl) for "), "{holders}");
    sender.send(Control::Cancel).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn holders_are_reported_at_once_and_every_half_minute() {
    let seconds = Duration::from_secs;
    let mut reported = None;
    let mut reports = Vec::new();
    for second in 3..100 {
        if is_due(reported, seconds(second)) {
            reported = Some(seconds(second));
            reports.push(second);
        }
    }
    assert_eq!(reports, [3, 33, 63, 93]);
}

#[test]
fn released_slots_have_a_description() {
    let record = |run: &str, since| SlotRecord {
        holder: SlotHolder { workflow: "w".into(), stage: "s".into(), ..of(run) },
        since,
        ..SlotRecord::default()
    };
    let one = BTreeMap::from([(0, record("r1", 0))]);
    let two = BTreeMap::from([(0, record("r2", 30_000))]);
    assert_eq!(describe_holders(&one, &two, 60_000), "held by run r1 (w, s) for 1m00s");
    assert_eq!(
        describe_holders(&BTreeMap::new(), &two, 60_000),
        "just released and requested by run r2 (w, s) for 30.0s"
    );
    assert_eq!(describe_holders(&BTreeMap::new(), &BTreeMap::new(), 0), "just released");
}

/// Builds the grants of a group with these shares.
fn group(shares: &[MachineShare]) -> Vec<Grant> {
    let plain: Vec<Grant> = shares.iter().map(|share| Grant::new("p", "local", vec![share.clone()])).collect();
    let together: Arc<[Grant]> = plain.clone().into();
    plain.into_iter().enumerate().map(|(at, grant)| Grant { together: together.clone(), at, ..grant }).collect()
}
fn of(run: &str) -> SlotHolder {
    SlotHolder { run: run.into(), ..SlotHolder::default() }
}

#[tokio::test]
async fn group_takes_all_its_slots_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (slots(&folder), slots(&folder));
    let busy = other.try_take(&share(1, &[]), &of("other")).unwrap().unwrap();
    let (_sender, control) = watch::channel(Control::Run);
    let (reported, mut reports) = watch::channel(0);
    let take = |grant: Grant| {
        let (slots, mut control, reported) = (one.clone(), control.clone(), reported.clone());
        tokio::spawn(async move {
            let waits = |_| reported.send_modify(|count| *count += 1);
            slots.acquire(&grant, &of("one"), &mut control, waits).await.unwrap().unwrap()
        })
    };
    let members = group(&[share(1, &[0]), share(1, &[1])]);
    let waiting: Vec<_> = members.into_iter().map(take).collect();
    reports.wait_for(|count| *count == 2).await.unwrap();
    assert_eq!(other.holdings().unwrap().len(), 1, "there is room for one of them, and neither holds it");
    drop(busy);
    let mut held = Vec::new();
    for member in waiting {
        held.push(member.await.unwrap());
    }
    assert_eq!(other.used_by_others().unwrap(), ExternalUsage { cpus: 2, memory: 20, gpus: vec![0, 1] });
    drop(held);
    assert!(other.holdings().unwrap().is_empty());
}

#[tokio::test]
async fn unused_reserved_slots_are_released() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let (_sender, mut control) = watch::channel(Control::Run);
    let members = group(&[share(1, &[]), share(1, &[])]);
    let first = slots.acquire(&members[0], &of("one"), &mut control, |_| {}).await.unwrap().unwrap();
    assert_eq!(slots.holdings().unwrap().len(), 2, "the other's are set aside");
    drop(first);
    assert!(slots.holdings().unwrap().is_empty());
}

#[tokio::test]
async fn run_with_fewer_slots_gets_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (rich, poor) = (slots(&folder), slots(&folder));
    let mut held: Vec<SlotGuard> =
        (0..2).map(|_| rich.try_take(&share(1, &[]), &of("rich")).unwrap().unwrap()).collect();
    let (_sender, control) = watch::channel(Control::Run);
    let (reported, mut reports) = watch::channel(0);
    let wait = |slots: &Slots, run: &'static str| {
        let (slots, mut control, reported) = (slots.clone(), control.clone(), reported.clone());
        tokio::spawn(async move {
            let waits = |_| reported.send_modify(|count| *count += 1);
            let grant = Grant::new("p", "local", vec![share(1, &[])]);
            slots.acquire(&grant, &of(run), &mut control, waits).await.unwrap().unwrap()
        })
    };
    let first = wait(&rich, "rich");
    reports.wait_for(|count| *count == 1).await.unwrap();
    let second = wait(&poor, "poor");
    reports.wait_for(|count| *count == 2).await.unwrap();
    held.pop();
    let given = second.await.unwrap();
    assert!(!first.is_finished(), "it has waited longer, but its run holds the rest");
    assert!(rich.try_take(&share(1, &[]), &of("new")).unwrap().is_none());
    drop((given, held));
    drop(first.await.unwrap());
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("slots")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [LOCK], "who waits no longer leaves no file");
}

/// Creates the folder and its lock.
fn prepared(folder: &TempDir) -> Slots {
    let slots = slots(folder);
    slots.prepare(&[]).unwrap();
    drop(slots.lock_folder().unwrap());
    slots
}
fn fifo(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn links_and_pipes_are_no_holdings_and_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let slots = prepared(&folder);
    let target = folder.path().join("written-through-a-link");
    for number in 0..3 {
        std::os::unix::fs::symlink(&target, slots.path(number)).unwrap();
    }
    fifo(&slots.path(3));
    std::fs::create_dir(slots.path(4)).unwrap();
    assert_eq!(slots.used_by_others().unwrap(), ExternalUsage::default());
    let _held = slots.try_take(&share(1, &[]), &SlotHolder::default()).unwrap().unwrap();
    assert!(!target.exists());
    assert!(slots.path(5).is_file(), "the first free name");
    assert_eq!(slots.holdings().unwrap().len(), 1);
}

#[test]
fn waiting_request_takes_the_first_free_name() {
    let folder = tempfile::tempdir().unwrap();
    let slots = prepared(&folder);
    let path = |number: u64| slots.0.folder.join(format!("{}.{WAIT}{number}", slots.0.host));
    std::os::unix::fs::symlink(folder.path().join("target"), path(0)).unwrap();
    let guard = slots.enqueue(&mut (0..9), &whole()).unwrap();
    assert_eq!((guard.number, &guard.path), (1, &path(1)));
    assert!(!folder.path().join("target").exists());
}

#[test]
fn lock_that_is_no_regular_file_is_refused() {
    for link in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let slots = slots(&folder);
        slots.prepare(&[]).unwrap();
        let lock = folder.path().join("slots").join(LOCK);
        let target = folder.path().join("target");
        if link {
            std::os::unix::fs::symlink(&target, &lock).unwrap();
        } else {
            fifo(&lock);
        }
        let refused = slots.try_take(&share(1, &[]), &SlotHolder::default()).map(|_| ()).unwrap_err();
        assert!(refused.message.contains("slots/lock"), "{}", refused.message);
        assert!(refused.help.unwrap().contains("remove it"));
        assert!(!target.exists());
    }
}

#[tokio::test]
async fn waiting_for_a_locked_folder_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let slots = prepared(&folder);
    let _held = slots.lock_folder_within(Duration::ZERO).unwrap().unwrap();
    assert!(slots.lock_folder_within(Duration::from_millis(20)).unwrap().is_none());
    let (sender, mut control) = watch::channel(Control::Run);
    let (reported, mut reports) = watch::channel(String::new());
    let waiting = tokio::spawn(async move {
        let grant = Grant::new("p", "local", vec![share(1, &[])]);
        let waits = |holders| drop(reported.send(holders));
        slots.acquire(&grant, &SlotHolder::default(), &mut control, waits).await.map(|_| ())
    });
    let holders = reports.wait_for(|reported| !reported.is_empty()).await.unwrap().clone();
    assert_eq!(holders, "whose record is locked by another process");
    sender.send(Control::Cancel).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("it ends");
    assert_eq!(ended.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn large_and_unreadable_records_have_unknown_amounts() {
    let folder = tempfile::tempdir().unwrap();
    let slots = prepared(&folder);
    let mut large = create_locked(&slots.path(0), &whole()).unwrap();
    large.set_len(20 << 30).unwrap();
    let mut garbage = create_locked(&slots.path(1), &whole()).unwrap();
    garbage.write_all(&[0xff; 10]).unwrap();
    large.flush().unwrap();
    assert_eq!(slots.holdings().unwrap(), [SlotRecord::default(), SlotRecord::default()]);
}

/// The other user is simulated by the owner of the file, which only root may change.
#[test]
fn record_counts_for_the_owner_of_its_file() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let slots = prepared(&folder);
    let _held = create_locked(&slots.path(0), &whole()).unwrap();
    std::os::unix::fs::chown(slots.path(0), Some(12_345), None).unwrap();
    assert_eq!(slots.holdings().unwrap()[0].holder.user, 12_345);
}

//! Slots taken and given back; holders are handles of this process, since a lock belongs to the handle, not to the
//! process.

use super::*;
use tempfile::TempDir;
use trainyard_core::ErrorKind;
use trainyard_engine::Gpu;

fn machine() -> Machine {
    Machine {
        name: "this".into(),
        cpus: 2,
        memory: 100,
        gpus: vec![Gpu { index: 0, memory: 1 }, Gpu { index: 1, memory: 1 }],
    }
}
fn share(cpus: u32, gpus: &[u32]) -> Share {
    Share { machine: "this".into(), cpus, memory: 10, gpus: gpus.to_vec() }
}
fn slots(folder: &TempDir) -> Slots {
    Slots::new(folder.path().join("slots"), machine())
}
fn whole() -> Holding {
    Holding { cpus: 2, gpus: vec![1], ..Holding::default() }
}

#[test]
fn slots_are_taken_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let first = slots.try_take(&share(2, &[0]), &Holder::default()).unwrap().unwrap();
    assert!(slots.try_take(&share(1, &[]), &Holder::default()).unwrap().is_none());
    assert!(slots.try_take(&share(0, &[0]), &Holder::default()).unwrap().is_none(), "that GPU is taken");
    assert!(slots.try_take(&share(0, &[1]), &Holder::default()).unwrap().is_some());
    assert_eq!(slots.others().unwrap(), Outside::default(), "its own are not others'");
    drop(first);
    assert!(slots.try_take(&share(2, &[0]), &Holder::default()).unwrap().is_some());
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("slots")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [LOCK], "what was given back leaves no file");
}

#[test]
fn another_run_sees_what_is_held_and_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (slots(&folder), slots(&folder));
    let held = one.try_take(&share(1, &[1]), &Holder::default()).unwrap().unwrap();
    assert_eq!(other.others().unwrap(), Outside { cpus: 1, memory: 10, gpus: vec![1] });
    assert!(other.try_take(&share(2, &[]), &Holder::default()).unwrap().is_none());
    let beside = other.try_take(&share(1, &[0]), &Holder::default()).unwrap().unwrap();
    assert_eq!(one.others().unwrap(), Outside { cpus: 1, memory: 10, gpus: vec![0] });
    drop(held);
    drop(beside);
    assert!(other.try_take(&share(2, &[0, 1]), &Holder::default()).unwrap().is_some());
}

#[test]
fn a_holding_counts_only_while_its_lock_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &Holder::default()).unwrap());
    // Like a process in another container: nobody knows which one it is, but it holds the lock.
    let holder = hold(&slots.path(7), &whole()).unwrap();
    assert_eq!(slots.others().unwrap(), Outside { cpus: 2, memory: 0, gpus: vec![1] });
    assert!(slots.try_take(&share(1, &[]), &Holder::default()).unwrap().is_none());
    // As after its kill, or a reboot: the file stays, the lock is gone.
    drop(holder);
    assert!(slots.path(7).exists());
    assert_eq!(slots.others().unwrap(), Outside::default());
    assert!(!slots.path(7).exists(), "the leftover is removed");
    std::fs::write(slots.path(0), serde_json::to_vec(&whole()).unwrap()).unwrap();
    assert!(slots.try_take(&share(2, &[1]), &Holder::default()).unwrap().is_some());
}

#[test]
fn a_holding_outlives_its_holder_as_long_as_a_process_that_inherited_it() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &Holder::default()).unwrap());
    let holder = hold(&slots.path(0), &whole()).unwrap();
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
    assert_eq!(slots.others().unwrap(), Outside { cpus: 2, memory: 0, gpus: vec![1] });
    heir.kill().unwrap();
    heir.wait().unwrap();
    assert_eq!(slots.others().unwrap(), Outside::default(), "what is lent to one is not lent to the next");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn other_hosts_in_the_same_home_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &Holder::default()).unwrap());
    let name = |number: u64| folder.path().join(format!("slots/{}.example.{number}", slots.0.host));
    let _holder = hold(&name(0), &whole()).unwrap();
    drop(hold(&name(1), &whole()).unwrap());
    assert_eq!(slots.others().unwrap(), Outside::default());
    assert!(slots.try_take(&share(2, &[1]), &Holder::default()).unwrap().is_some());
    assert!(name(0).exists() && name(1).exists());
}

#[test]
fn a_holding_that_cannot_be_read_keeps_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    drop(slots.try_take(&share(1, &[]), &Holder::default()).unwrap());
    let mut holder = hold(&slots.path(0), &whole()).unwrap();
    holder.write_all(b"of another version").unwrap();
    let held = slots.try_take(&share(2, &[]), &Holder::default()).unwrap().unwrap();
    assert_eq!(held.number, 1);
}

#[test]
fn looking_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(slots(&folder).others().unwrap(), Outside::default());
    assert!(!folder.path().join("slots").exists());
}

#[tokio::test]
async fn a_share_larger_than_the_machine_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let large = Share { memory: 101, ..share(3, &[0, 5]) };
    let (_sender, mut control) = watch::channel(Control::Run);
    let error =
        slots.acquire(&large, &Holder::default(), &mut control, |_| panic!("it waits")).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    for word in ["needs 3 CPUs; it has 2", "memory", "GPU 5", "site file"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let unknown = Slots::new(folder.path(), Machine { memory: 0, ..machine() });
    assert!(
        unknown.try_take(&Share { memory: 1 << 50, ..share(1, &[]) }, &Holder::default()).unwrap().is_some(),
        "0 bytes mean that nobody knows"
    );
}

#[tokio::test]
async fn waiting_is_reported_and_ends_with_a_request_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let slots = slots(&folder);
    let first = Holder { run: "20261122-1".into(), workflow: "quickstart".into(), stage: "rl".into() };
    let _held = slots.try_take(&share(2, &[]), &first).unwrap().unwrap();
    let (sender, mut control) = watch::channel(Control::Run);
    let (told, mut heard) = watch::channel(String::new());
    let (slots, share) = (slots.clone(), share(1, &[]));
    let waiting = tokio::spawn(async move {
        slots
            .acquire(&share, &Holder::default(), &mut control, move |holders| {
                let _ = told.send(holders);
            })
            .await
            .map(|_| ())
    });
    let holders = heard.wait_for(|told| !told.is_empty()).await.unwrap().clone();
    assert!(holders.starts_with("held by run 20261122-1 (quickstart, rl) for "), "{holders}");
    sender.send(Control::Cancel).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
}

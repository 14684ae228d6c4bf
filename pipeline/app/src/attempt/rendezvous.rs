//! Lets processes that run at the same time find each other: those of a multi-node attempt, and those of a group.
//!
//! Each process stores its address and waits until all addresses are stored. The addresses become variables in the
//! environment of the command. The wait is limited, because a batch system may start only a part of a group, which must
//! not occupy its machines indefinitely.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::time::Duration;
use tokio::runtime::Handle;
use trainyard_api::CancelToken;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::peers::{AttemptPeer, DEFAULT_PEER_WAIT, NodeAddress, env_suffix};
use trainyard_core::units::format_duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_runtime::executors::NODE;
use trainyard_runtime::slots::host;
use trainyard_store::{CreateOutcome, Store};

/// Interval of checks for missing peers. A request to a disk is cheap, a request to a bucket is not.
const LOCAL_POLL_INTERVAL: Duration = Duration::from_millis(50);
const REMOTE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the rank of this process in its attempt; the first or only process has rank 0.
pub fn rank(url: &str) -> u32 {
    let value = std::env::var(NODE).unwrap_or_default();
    rank_in(&value, url)
}

/// Parses the rank from the variable's value. Commands inherit the variable, so the rank counts only if the value also
/// contains the attempt's URL.
fn rank_in(value: &str, url: &str) -> u32 {
    value.split_once(' ').filter(|(_, of)| *of == url).and_then(|(rank, _)| rank.parse().ok()).unwrap_or(0)
}

/// Returns the number of machines that the attempt runs on.
pub fn nodes(spec: &AttemptSpec) -> u32 {
    spec.peers.iter().find(|peer| peer.stage == spec.stage).map_or(1, |peer| peer.nodes)
}

/// Returns whether the stage is a companion in its group, whose lead is the first of its peers.
pub fn is_companion(spec: &AttemptSpec) -> bool {
    spec.peers.first().is_some_and(|lead| lead.stage != spec.stage)
}

/// Rendezvous of one process.
pub struct Rendezvous<'a> {
    /// Store of the rendezvous.
    pub store: &'a Store,
    /// Spec of the attempt.
    pub spec: &'a AttemptSpec,
    /// Rank of the process in its attempt.
    pub rank: u32,
    /// Step of the resume point that the process continues from.
    pub resumed: Option<u64>,
    /// Runtime of store requests.
    pub handle: Handle,
    /// Set when the attempt must stop.
    pub cancel: &'a CancelToken,
}

impl Rendezvous<'_> {
    /// Stores the address of this process and waits for those of all peers. Returns environment variables with the
    /// addresses, or none for an attempt without peers.
    ///
    /// Errors: cancelled, retryable (some peers did not arrive in time, or found another resume point), lost (another
    /// process has this rank).
    pub fn join(&self) -> Result<BTreeMap<String, String>> {
        if self.spec.peers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let own = self.announce()?;
        let all = self.wait_for_all()?;
        require_one_resume_point(self.spec, &all)?;
        tracing::info!(processes = all.len(), "all peers have arrived");
        Ok(variables(self.spec, &own, &all))
    }

    fn announce(&self) -> Result<NodeAddress> {
        let (ip, port) = (own_ip().to_string(), port()?);
        let address = NodeAddress { format: 1, rank: self.rank, host: host(), ip, port, resumed: self.resumed };
        match self.handle.block_on(self.store.put_address(self.spec, &address))? {
            CreateOutcome::Ours => Ok(address),
            CreateOutcome::Theirs(_) => Err(super::stop::stale(self.spec)),
        }
    }

    fn wait_for_all(&self) -> Result<BTreeMap<(String, u32), NodeAddress>> {
        let clock = SystemClock::new();
        let limit =
            self.spec.wait_millis.map_or(DEFAULT_PEER_WAIT, |wait| Duration::from_millis(wait).min(DEFAULT_PEER_WAIT));
        let pause = if self.store.local_root().is_some() { LOCAL_POLL_INTERVAL } else { REMOTE_POLL_INTERVAL };
        let started = clock.monotonic();
        let mut found = BTreeMap::new();
        loop {
            for (peer, rank) in processes(&self.spec.peers) {
                let name = (peer.stage.0.clone(), rank);
                if found.contains_key(&name) {
                    continue;
                }
                let lookup = self.store.address(&self.spec.run, &peer.stage, peer.attempt, rank);
                if let Some(address) = self.handle.block_on(lookup)? {
                    found.insert(name, address);
                }
            }
            let missing: Vec<String> = processes(&self.spec.peers)
                .filter(|(peer, rank)| !found.contains_key(&(peer.stage.0.clone(), *rank)))
                .map(|(peer, rank)| describe(peer, rank))
                .collect();
            if missing.is_empty() {
                return Ok(found);
            }
            if self.cancel.is_cancelled() {
                return Err(Error::cancelled("stopped while it waited for its peers"));
            }
            if clock.monotonic().saturating_sub(started) >= limit {
                let (missing, time) = (missing.join(", "), format_duration(limit));
                return Err(Error::retryable(format!("did not start within {time}: {missing}"))
                    .help("peers must run at the same time; `trainyard explain` shows what they wait for"));
            }
            std::thread::sleep(pause);
        }
    }
}

fn processes(peers: &[AttemptPeer]) -> impl Iterator<Item = (&AttemptPeer, u32)> {
    peers.iter().flat_map(|peer| (0..peer.nodes.max(1)).map(move |rank| (peer, rank)))
}

fn describe(peer: &AttemptPeer, rank: u32) -> String {
    if peer.nodes > 1 { format!("`{}` on node {rank}", peer.stage) } else { format!("`{}`", peer.stage) }
}

/// Checks that all processes of the attempt continue from the same resume point: one may have been stored, or found
/// damaged, after some of them had looked.
fn require_one_resume_point(spec: &AttemptSpec, all: &BTreeMap<(String, u32), NodeAddress>) -> Result<()> {
    let resumed = |rank| all.get(&(spec.stage.0.clone(), rank)).and_then(|address| address.resumed);
    let from = |step: Option<u64>| step.map_or("from the beginning".to_string(), |step| format!("after step {step}"));
    match (1..nodes(spec)).find(|rank| resumed(*rank) != resumed(0)) {
        None => Ok(()),
        Some(rank) => {
            let (other, first) = (from(resumed(rank)), from(resumed(0)));
            Err(Error::retryable(format!("node {rank} would continue {other}, but node 0 {first}"))
                .help("no action is needed: the next attempt looks for the newest resume point again"))
        }
    }
}

/// Returns the environment variables of a process; documented in `docs/workflows.md`.
fn variables(
    spec: &AttemptSpec,
    own: &NodeAddress,
    all: &BTreeMap<(String, u32), NodeAddress>,
) -> BTreeMap<String, String> {
    let addresses = |peer: &AttemptPeer| {
        let each = (0..peer.nodes.max(1)).filter_map(|rank| all.get(&(peer.stage.0.clone(), rank)));
        each.map(|address| address.from(own)).collect::<Vec<_>>().join(",")
    };
    let mut variables = BTreeMap::from([
        ("TRAINYARD_HOST".to_string(), own.ip.clone()),
        ("TRAINYARD_PORT".to_string(), own.port.to_string()),
    ]);
    let nodes = nodes(spec);
    if nodes > 1 {
        variables.insert("TRAINYARD_NODE_RANK".into(), own.rank.to_string());
        variables.insert("TRAINYARD_NODES".into(), nodes.to_string());
        let of_attempt = spec.peers.iter().filter(|peer| peer.stage == spec.stage).map(addresses);
        variables.insert("TRAINYARD_NODE_ADDRESSES".into(), of_attempt.collect());
    }
    if spec.peers.len() > 1 {
        let each = spec.peers.iter().map(|p| (format!("TRAINYARD_ADDRESS_{}", env_suffix(&p.stage)), addresses(p)));
        variables.extend(each);
    }
    variables
}

/// Returns an unused port. It is not reserved, so the command should bind it soon.
fn port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|e| Error::retryable(format!("cannot find a free port: {e}")))
}

/// Returns the source address of this machine's packets, or the loopback address if there is no route. Connecting a
/// datagram socket only looks up the route and sends no packet.
fn own_ip() -> IpAddr {
    let local = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    local.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use trainyard_core::{ErrorKind, StageKey};
    use trainyard_store::StoreOptions;

    fn peer(stage: &str, nodes: u32) -> AttemptPeer {
        AttemptPeer { stage: StageKey(stage.into()), attempt: 1, nodes }
    }
    fn of(stage: &str, peers: &[AttemptPeer], wait_millis: Option<u64>) -> AttemptSpec {
        AttemptSpec { stage: StageKey(stage.into()), peers: peers.to_vec(), wait_millis, ..spec() }
    }
    async fn store() -> Store {
        Store::open("memory://", StoreOptions::default()).await.unwrap()
    }
    async fn meet(store: &Store, spec: AttemptSpec, rank: u32) -> Result<BTreeMap<String, String>> {
        meet_after(store, spec, rank, None).await
    }
    /// Joins as a process that continues after the step `resumed`.
    async fn meet_after(
        store: &Store,
        spec: AttemptSpec,
        rank: u32,
        resumed: Option<u64>,
    ) -> Result<BTreeMap<String, String>> {
        let (store, handle) = (store.clone(), Handle::current());
        let join = move || {
            let cancel = CancelToken::default();
            Rendezvous { store: &store, spec: &spec, rank, resumed, handle, cancel: &cancel }.join()
        };
        tokio::task::spawn_blocking(join).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn peers_receive_all_addresses() {
        let store = store().await;
        let peers = [peer("train", 2), peer("rollout_server", 1)];
        let (first, second, server) = tokio::join!(
            meet(&store, of("train", &peers, None), 0),
            meet(&store, of("train", &peers, None), 1),
            meet(&store, of("rollout_server", &peers, None), 0),
        );
        let (first, second, server) = (first.unwrap(), second.unwrap(), server.unwrap());
        assert_eq!((first["TRAINYARD_NODE_RANK"].as_str(), second["TRAINYARD_NODE_RANK"].as_str()), ("0", "1"));
        assert_eq!(first["TRAINYARD_NODES"], "2");
        let at = |variables: &BTreeMap<String, String>| format!("127.0.0.1:{}", variables["TRAINYARD_PORT"]);
        assert_eq!(first["TRAINYARD_NODE_ADDRESSES"], format!("{},{}", at(&first), at(&second)));
        assert_eq!(first["TRAINYARD_ADDRESS_ROLLOUT_SERVER"], at(&server));
        assert_eq!(server["TRAINYARD_ADDRESS_TRAIN"], first["TRAINYARD_NODE_ADDRESSES"]);
        assert!(!server.contains_key("TRAINYARD_NODES"), "a stage on one machine has no nodes");
        let again = meet(&store, of("train", &peers, None), 1).await.unwrap_err();
        assert_eq!(again.kind, ErrorKind::Lost, "a second process of one rank: {again}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn processes_of_a_stage_continue_from_one_resume_point() {
        let peers = [peer("train", 2), peer("server", 1)];
        for (second, message) in [
            (Some(50), None),
            (None, Some("node 1 would continue from the beginning, but node 0 after step 50")),
            (Some(40), Some("node 1 would continue after step 40, but node 0 after step 50")),
        ] {
            let store = store().await;
            let ended = tokio::join!(
                meet_after(&store, of("train", &peers, None), 0, Some(50)),
                meet_after(&store, of("train", &peers, None), 1, second),
                meet(&store, of("server", &peers, None), 0),
            );
            for error in [ended.0.err(), ended.1.err()] {
                assert_eq!(error.as_ref().map(|error| error.message.as_str()), message);
                assert!(error.is_none_or(|error| error.kind == ErrorKind::Retryable));
            }
            assert!(ended.2.is_ok(), "a companion has no resume points");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn missing_peers_are_reported_after_the_timeout() {
        let store = store().await;
        let error = meet(&store, of("a", &[peer("a", 1), peer("b", 2)], Some(20)), 0).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable);
        assert!(error.message.contains("`b` on node 0, `b` on node 1"), "{error}");
        assert!(meet(&store, of("a", &[], None), 0).await.unwrap().is_empty(), "an attempt without peers");
    }

    #[test]
    fn first_peer_is_no_companion() {
        let peers = [peer("train", 2), peer("server", 1)];
        let companions = ["train", "server"].map(|stage| is_companion(&of(stage, &peers, None)));
        assert_eq!((companions, is_companion(&of("alone", &[], None))), ([false, true], false));
    }

    #[test]
    fn rank_of_another_attempt_is_ignored() {
        assert_eq!(rank_in("3 file:///s#a/1", "file:///s#a/1"), 3);
        for value in ["3 file:///s#b/1", "", "x file:///s#a/1", "3"] {
            assert_eq!(rank_in(value, "file:///s#a/1"), 0, "{value}");
        }
    }
}

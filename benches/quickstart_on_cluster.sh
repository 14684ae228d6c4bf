#!/usr/bin/env bash
# The quickstart with `sft` and `rl` on a real cluster and the rest on this machine. Its engine is killed (SIGKILL) while
# `rl` works and started again; at the end every artifact must have the digest of a run that knew no cluster.
#
# usage: .ci/slurm -- benches/quickstart_on_cluster.sh slurm TRAINYARD [ARGUMENT …]
#        .ci/ray -- benches/quickstart_on_cluster.sh ray TRAINYARD [ARGUMENT …]
#
# Arguments go to both runs: `-p sft_steps=200 -p rl_steps=30 --until rl` is a short version, which leaves out the
# check on what practice gained. Needs python3 (standard library).
set -euo pipefail
if [ $# -lt 2 ]; then sed -n '2,9p' "$0" | cut -c3-; exit 2; fi
executor=$1 program=$(readlink -f "$2"); shift 2; arguments=("$@")
quickstart=$(readlink -f "$(dirname "$0")/../workflows/quickstart.yaml")
scratch=$(mktemp -d)
engine=0
finish() {
  local status=$?
  trap - EXIT
  # A run that is interrupted stops its attempts, wherever they are.
  [ "$engine" -gt 0 ] && kill -INT "$engine" 2>/dev/null && wait "$engine" 2>/dev/null
  [ "$status" = 0 ] && rm -rf "$scratch" || echo "what is left lies in $scratch"
  exit "$status"
}
trap finish EXIT
export TRAINYARD_HOME="$scratch/home"
cd "$scratch"

case $executor in
  slurm) with="poll: 1s, log_folder: $scratch/logs"
    jobs() { squeue --noheader --format='%i %T %j'; } ;;
  ray) with="address: ${TRAINYARD_TEST_RAY:?it runs inside .ci/ray}, shared_filesystem: true, poll: 1s, environment: {TRAINYARD_HOME: $scratch/home}"
    jobs() { curl --silent --fail "$TRAINYARD_TEST_RAY/api/jobs/" |
      python3 -c 'import json, sys; [print(job["submission_id"], job["status"], job["metadata"]) for job in json.load(sys.stdin) if job["status"] in ("PENDING", "RUNNING")]'; } ;;
  *) echo "no executor $executor is known here"; exit 2 ;;
esac
cat >cluster.yaml <<YAML
version: 1
pools:
  - {name: here, tags: [here]}
  - {name: cluster, executor: $executor, nodes: 1, cpus: 4, memory: 3GiB, tags: [cluster], with: {$with}}
YAML
# Tags are no part of a stage's digest.
cat >on_cluster.yaml <<YAML
version: 1
extends: $quickstart
defaults: {resources: {tags: [here]}}
stages:
  sft: {resources: {tags: [cluster], cpus: 2, memory: 2GiB}}
  rl: {resources: {tags: [cluster], cpus: 2, memory: 2GiB}}
YAML
store=$scratch/cluster log=$scratch/log
# query STORE COMMAND … PYTHON: runs PYTHON with the command's JSON output as `it`.
query() { "$program" "${@:2:$#-2}" --format json --store "$1" | python3 -c "import json, sys; it = json.load(sys.stdin); ${*: -1}"; }
digests() { query "$1" artifacts list 'print(*sorted(a["artifact"].split("/", 1)[1] + " " + a["digest"] for a in it), sep="\n")'; }
start() { "$program" run on_cluster.yaml --site cluster.yaml --store "$store" "${arguments[@]}" >>"$log" 2>&1 & engine=$!; }
# Resume points of `rl`, whose digest is known once its inputs are.
points() {
  local digest
  digest=$(query "$store" runs show latest 'print(next(s.get("digest") or "" for s in it["stages"] if s["stage"] == "rl"))' 2>/dev/null) || return 0
  [ -z "$digest" ] || ls "$store/checkpoints/${digest:0:2}/$digest" 2>/dev/null || true
}

start
until [ -n "$(points)" ]; do
  kill -0 "$engine" 2>/dev/null || { cat "$log"; echo "the run ended before rl took a resume point"; exit 1; }
  sleep 0.5
done
kill -9 "$engine"; wait "$engine" 2>/dev/null || true
sleep 3
echo "the engine was killed; the cluster goes on with:"; jobs
start
status=0; wait "$engine" || status=$?; engine=0
cat "$log"
if [ "$status" != 0 ] || ! grep -q "resuming run" "$log"; then echo "the run did not resume and succeed: $status"; exit 1; fi

"$program" run "$quickstart" --store "$scratch/local" "${arguments[@]}" >"$scratch/local_log" 2>&1 || { cat "$scratch/local_log"; exit 1; }
echo "stages by pool, and how many attempts they took:"
query "$store" runs show latest 'print(*("  " + s["stage"] + ": " + ", ".join(a["pool"] for a in s["attempts"]) for s in it["stages"]), sep="\n")'
query "$store" runs show latest 'pools = {s["stage"]: {a["pool"] for a in s["attempts"]} for s in it["stages"]}
wrong = [name for name, found in pools.items() if ("cluster" in found) != (name in ("sft", "rl"))]
sys.exit(f"not where they should have run: {wrong}" if wrong else 0)'
digests "$store" >here.cluster; digests "$scratch/local" >here.local
if ! diff here.cluster here.local; then echo "digests differ"; exit 1; fi
left=$(jobs)
if [ -n "$left" ]; then echo "the cluster still has: $left"; exit 1; fi
echo "$(wc -l <here.local) artifacts, on $executor and here, 0 differing"

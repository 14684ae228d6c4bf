#!/usr/bin/env bash
# Each tick exactly once, for real: two daemons on one store fire schedules that tick every second, while daemons and runs
# are killed at random moments (SIGKILL). At the end every second has one tick, one run, one beginning and one end.
#
# usage: benches/schedules.sh TRAINYARD [TICKS=1000] [SCHEDULES=5] [SEED=1]
#
# It takes TICKS / SCHEDULES seconds and some more to settle. Needs bash and python3 (standard library).
set -euo pipefail
program=$(readlink -f "$1"); ticks=${2:-1000}; schedules=${3:-5}; RANDOM=${4:-1}
scratch=$(mktemp -d)
daemons=(0 0)
stop() { for pid in "${daemons[@]}"; do [ "$pid" -gt 0 ] && kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$scratch"; }
trap stop EXIT
mkdir "$scratch/workflows"
export TRAINYARD_HOME="$scratch/home"
for n in $(seq "$schedules"); do
  cat > "$scratch/workflows/s$n.yaml" <<YAML
version: 1
name: s$n
params: {tick: {type: string, default: ""}}
schedule: {cron: "* * * * * *", catchup: all, overlap: queue}
stages:
  one: {uses: noop, description: "\${{ params.tick }}"}
YAML
done
port=$((20000 + RANDOM % 20000))
start() { # start WHICH
  (cd "$scratch" && exec "$program" serve --workflows workflows --store "$scratch/store" --bind "127.0.0.1:$((port + $1))" \
    >>"$scratch/daemon$1.log" 2>&1) &
  daemons[$1]=$!
}
start 0; start 1
kills=0
end=$((SECONDS + ticks / schedules))
while [ "$SECONDS" -lt "$end" ]; do
  sleep "0.$((RANDOM % 9 + 1))"
  case $((RANDOM % 6)) in
    0 | 1) which=$((RANDOM % 2)); kill -9 "${daemons[$which]}" 2>/dev/null || true; wait "${daemons[$which]}" 2>/dev/null || true
      kills=$((kills + 1)); sleep "0.$((RANDOM % 5))"; start "$which" ;;
    2) victim=$(pgrep -f -- "--store file://$scratch/store" | shuf -n 1 --random-source=<(yes "$RANDOM") || true)
      # Only processes of runs of this very store match.
      [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null && kills=$((kills + 1)) || true ;;
  esac
done
for n in $(seq "$schedules"); do "$program" schedules pause "s$n" --store "$scratch/store" >/dev/null; done
settled() { for n in $(seq "$schedules"); do
  "$program" schedules show "s$n" --store "$scratch/store" --format json | python3 -c 'import json, sys; sys.exit(len(json.load(sys.stdin)["waiting"]) > 0)' || return 1
done; }
for _ in $(seq 600); do settled && break; sleep 1; done
kill -TERM "${daemons[@]}" 2>/dev/null || true
wait "${daemons[@]}" 2>/dev/null || true
KILLS=$kills STORE="$scratch/store" python3 - <<'PYTHON'
import collections, json, os, pathlib, sys
store = pathlib.Path(os.environ["STORE"])

def objects(folder):
    # A put that was killed leaves its bytes under a name with `#`, which no reader opens.
    return sorted(path for path in folder.iterdir() if path.is_file() and "#" not in path.name)

wrong, fired, ended = [], 0, collections.Counter()
runs = {path.name: path for path in store.glob("runs/*/*") if path.is_dir()}
claimed = set()
for folder in sorted(store.glob("schedules/*")):
    records = [json.loads(path.read_text()) for path in objects(folder / "log")]
    begin = next(record["at"] for record in records if record["type"] == "defined")
    log = [record for record in records if record["type"] == "fired"]
    ended.update(record["outcome"] for record in records if record["type"] == "ended")
    ticks = [record["tick"]["at"] for record in log]
    fired += len(ticks)
    if sorted(ticks) != list(range((begin // 1000 + 1) * 1000, max(ticks) + 1, 1000)):
        wrong.append(f"{folder.name}: ticks are missing or double")
    for record in log:
        run = record["run"]
        if run in claimed:
            wrong.append(f"run {run} has two ticks")
        claimed.add(run)
        if run not in runs:
            wrong.append(f"tick {record['tick']['id']} of {folder.name} has no run")
            continue
        events = collections.Counter(
            json.loads(line).get("type") for batch in objects(runs[run] / "journal") for line in batch.read_text().splitlines()
        )
        if events["run_created"] != 1 or events["run_finished"] != 1:
            wrong.append(f"run {run} began {events['run_created']} times and ended {events['run_finished']} times")
    count = len(objects(folder))
    if count != len(ticks):
        wrong.append(f"{folder.name}: {count} objects for {len(ticks)} ticks")
wrong += [f"run {run} belongs to no tick" for run in runs if run not in claimed]
print(f"{fired} ticks, {len(runs)} runs, {os.environ['KILLS']} kills, ended: {dict(ended)}, wrong: {len(wrong)}")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong) or fired == 0)
PYTHON

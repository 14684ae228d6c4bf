#!/usr/bin/env bash
# Synchronous and asynchronous rollouts with tools that take 100 to 500 ms, in turn on this machine: trajectories per second, how many
# updates old they are when they are used, and the reward that the last quarter of the steps reaches.
# Usage: benches/asynchronous.sh [rounds] [steps] [groups per step] [staleness bound]. TRAINYARD names the program; without it, it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
rounds=${1:-3} steps=${2:-20} groups=${3:-16} bound=${4:-2}
workflow=benches/workflows/asynchronous.yaml

program=${TRAINYARD:-}
if [ -z "$program" ]; then
  cargo build --release --bin trainyard
  program="${CARGO_TARGET_DIR:-target}/release/trainyard"
fi

output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
store="$output/store"

run() {
  if ! "$program" run "$workflow" --store "$store" "$@" >"$output/log" 2>&1; then
    cat "$output/log"
    exit 1
  fi
}

# measure MODE SEED: one run, whose only stage that is not in the store yet is `rl`. Leaves seconds, trajectories, the mean reward of the
# last quarter with its standard error (over problems, since trajectories of one problem are alike), and the mean and the largest age.
measure() {
  run -p mode="$1" -p seed="$2" -p steps="$steps" -p groups="$groups" -p max_staleness="$bound"
  local seconds
  seconds=$("$program" runs list --limit 1 --format json --store "$store" | awk -F '[:,]' '/"seconds"/ { print $2 }')
  # `array_lower` is the least element: the weights that the oldest token is of.
  "$program" artifacts query latest/rl/trajectories \
    "select id, reward, array_lower(weights_version) as oldest from self where status = 'ok'" --limit 10000000 --store "$store" |
    awk -v seconds="$seconds" -v from="$((steps - steps / 4))" '
      # The id is rl/STEP/DRAW/PROBLEM/SAMPLE; the step is the update that used it.
      /^rl\// {
        split($1, part, "/")
        n++; age = part[2] - $3; ages += age; if (age > oldest) oldest = age
        if (part[2] >= from) { sum[part[4]] += $2; count[part[4]]++ }
      }
      END {
        for (problem in sum) { mean = sum[problem] / count[problem]; k++; s += mean; squares += mean * mean }
        variance = k > 1 ? (squares - s * s / k) / (k - 1) : 0
        printf "%s %d %.6f %.6f %.2f %d\n", seconds + 0, n, s / k, sqrt(variance > 0 ? variance / k : 0), ages / n, oldest
      }' >"$output/$1"
}

# rate MODE: trajectories per second.
rate() { awk '{ printf "%.1f", $2 / $1 }' "$output/$1"; }

# tell MODE
tell() {
  awk -v mode="$1" '{
    printf "%s: %d trajectories in %.1f s, %.1f a second; reward %.3f ± %.3f\n", mode, $2, $1, $2 / $1, $3, 1.96 * $4
  }' "$output/$1"
}

# metric NAME: of the newest run. `stale_groups` is a mean over all steps.
metric() {
  "$program" artifacts show latest/rl/trajectories --store "$store" | awk -v name="$1" '$1 == "metric" && $2 == name { print $4 }'
}

echo "the cold start"
run --until start/sft --until start/practice
ratios=()
for round in $(seq "$rounds"); do
  echo "== round $round of $rounds"
  measure synchronous "$round"
  tell synchronous
  measure asynchronous "$round"
  tell asynchronous
  awk -v bound="$bound" -v out="$(metric stale_groups)" '{
    printf "age %.2f updates, at most %d (bound %d); %.1f groups a step left out for their age\n", $5, $6, bound, out
  }' "$output/asynchronous"
  ratio=$(awk -v a="$(rate asynchronous)" -v b="$(rate synchronous)" 'BEGIN { printf "%.2f", a / b }')
  ratios+=("$ratio")
  paste -d ' ' "$output/synchronous" "$output/asynchronous" >>"$output/all"
  echo "asynchronous: $ratio times as many trajectories a second"
done
median=$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n "$(((${#ratios[@]} + 1) / 2))p")
echo "median of ${#ratios[@]} rounds: $median times as many trajectories a second"
# Rounds have seeds of their own, so their means are independent.
awk '{ n++; a += $3; b += $9; variance += $4 * $4 + $10 * $10 }
  END {
    a /= n; b /= n; half = 1.96 * sqrt(variance) / n
    printf "reward of the last quarter, all rounds: synchronous %.3f, asynchronous %.3f, ", a, b
    printf "difference %.3f [%.3f, %.3f]\n", b - a, b - a - half, b - a + half
  }' "$output/all"

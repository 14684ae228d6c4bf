#!/usr/bin/env bash
# A step of reinforcement learning, ours and TRL's, in turn on this machine: the ratio of two runs right after one another means more
# than either figure, because machines drift.
# Usage: benches/rl_step.sh [rounds] [seconds per run] [threads] [vocabulary]. PYTHON names the Python that has trl.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-10} threads=${3:-2} vocabulary=${4:-128}
python=${PYTHON:-python3}

cargo build --release --workspace --bins
program="${CARGO_TARGET_DIR:-target}/release/rl_step"

peer=yes
if ! "$python" -c 'import trl, torch, transformers, datasets' 2>/dev/null; then
  peer=no
  echo "no TRL: \`$python\` cannot import trl, torch, transformers and datasets (pip install trl==1.16.0; PYTHON=… names another one)"
fi

# The last line with seconds of a step, as a number.
step() { sed -n 's/^ *\([0-9.]*\) s a step.*/\1/p' "$1" | tail -n 1; }

output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
ratios=()
for round in $(seq "$rounds"); do
  echo "== round $round of $rounds"
  # As the program starts the process of a stage (stages/lm/src/threads.rs).
  CANDLE_NUM_THREADS=1 MIMALLOC_PURGE_DELAY=-1 TOKENIZERS_PARALLELISM=false RAYON_NUM_THREADS="$threads" \
    "$program" "$seconds" "$threads" "$vocabulary" | tee "$output/ours"
  if [ "$peer" = yes ]; then
    "$python" benches/peers/trl_grpo.py "$seconds" "$threads" "$vocabulary" | tee "$output/trl"
    ratio=$(awk -v a="$(step "$output/trl")" -v b="$(step "$output/ours")" 'BEGIN { printf "%.2f", a / b }')
    ratios+=("$ratio")
    echo "TRL takes $ratio times as long"
  fi
done
if [ "${#ratios[@]}" -gt 0 ]; then
  median=$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n "$(((${#ratios[@]} + 1) / 2))p")
  echo "median of ${#ratios[@]} rounds: TRL takes $median times as long"
fi

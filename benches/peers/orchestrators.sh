#!/usr/bin/env bash
# The same commands (`true`) under Trainyard and its peers, in turn on this machine: many that depend on nothing, a chain, a rerun of
# everything, and one command from a cold start. Wall-clock seconds of whole commands, medians over the rounds; start and end of servers
# and workers included. A peer that keeps no results has no rerun (-).
# Usage: benches/peers/orchestrators.sh [rounds] [commands] [links]. TRAINYARD names the program; without it, it is built. PEERS names
# those that run (default: all). Each peer has a Python environment of its own below PEERS_CACHE, made when it is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C
rounds=${1:-5} commands=${2:-1000} links=${3:-200}
flows=$PWD/benches/peers/orchestrators
peers=${PEERS:-trainyard hyperqueue dask prefect dagster luigi snakemake}
cache=${PEERS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trainyard-peers}

program=${TRAINYARD:-}
if [[ " $peers " == *" trainyard "* && -z "$program" ]]; then
  cargo build --release --bin trainyard
  program="${CARGO_TARGET_DIR:-target}/release/trainyard"
fi
if [ -n "$program" ]; then program=$(realpath "$program"); fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The packages of each peer, as they were tried. Prefect does not start with fastapi 0.165.
packages() {
  case $1 in
    hyperqueue) echo hyperqueue==0.27.0 ;;
    dask) echo 'dask[distributed]' ;;
    prefect) echo prefect==3.8.8 fastapi==0.139.2 ;;
    dagster) echo dagster==1.13.28 ;;
    luigi) echo luigi==3.8.1 ;;
    snakemake) echo snakemake==9.27.0 ;;
  esac
}

# A peer that cannot be installed is skipped with a message.
install() {
  [ "$1" = trainyard ] && return
  [ -e "$cache/$1/ready" ] && return
  rm -rf "${cache:?}/$1"
  mkdir -p "$cache"
  # shellcheck disable=SC2046
  python3 -m venv "$cache/$1" && "$cache/$1/bin/pip" install --quiet $(packages "$1") >"$work/install" 2>&1 &&
    touch "$cache/$1/ready"
}

# run PEER SHAPE COUNT FOLDER: one whole command.
run() {
  local bin="$cache/$1/bin"
  case $1 in
    trainyard) "$program" run "$4/flow.yaml" --store "$4/store" ;;
    snakemake)
      "$bin/snakemake" --snakefile "$flows/Snakefile" --directory "$4" --cores 2 --scheduler greedy --quiet all \
        --config "shape=$2" "count=$3"
      ;;
    prefect) PREFECT_HOME="$4/prefect" PREFECT_LOGGING_LEVEL=ERROR "$bin/python" "$flows/prefect_flow.py" "$4" "$2" "$3" ;;
    *) "$bin/python" "$flows/$1_flow.py" "$4" "$2" "$3" ;;
  esac
}

# The workflow of Trainyard: each command has an argument of its own, or it would be one computation.
flow() {
  local number
  echo "version: 1"
  echo "name: $1"
  if [ "$1" = many ]; then
    echo "params: {count: {type: int, default: $2}}"
    echo "stages:"
    echo "  command:"
    echo "    matrix: {n: [$(seq -s ', ' 1 "$2")]}"
    echo "    run: [\"true\", \"\${{ matrix.n }}\"]"
    return
  fi
  echo "stages:"
  for ((number = 0; number < $2; number++)); do
    echo "  link_$number:"
    echo "    run: [\"true\", \"$number\"]"
    if ((number > 0)); then echo "    needs: [link_$((number - 1))]"; fi
  done
}

# measure PEER ROW SHAPE COUNT FOLDER: appends the seconds to the row of the peer. A peer that fails (Prefect's database may be locked on
# a busy machine) is counted; Trainyard must not.
measure() {
  local began=$EPOCHREALTIME
  if ! run "$1" "$3" "$4" "$5" >"$work/log" 2>&1; then
    echo "$1 failed at the row $2: $(tail -n 1 "$work/log")" >&2
    [ "$1" = trainyard ] && exit 1
    echo >>"$work/failed.$1.$2"
    return
  fi
  awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", to - from }' >>"$work/$1.$2"
}

# fresh PEER SHAPE COUNT FOLDER: a folder with nothing in it but the workflow. What earlier measurements left stays until the end:
# after many removals some file systems are slow for a while.
fresh() {
  mkdir -p "$4"
  if [ "$1" = trainyard ]; then flow "$2" "$3" >"$4/flow.yaml"; fi
}

# round NUMBER PEER
round() {
  local state="$work/$1.$2"
  export TRAINYARD_HOME="$work/home"
  fresh "$2" many 1 "$state.cold"
  measure "$2" cold many 1 "$state.cold"
  fresh "$2" many "$commands" "$state.many"
  measure "$2" many many "$commands" "$state.many"
  case $2 in
    trainyard | prefect | luigi | snakemake) measure "$2" again many "$commands" "$state.many" ;;
  esac
  fresh "$2" chain "$links" "$state.chain"
  measure "$2" chain chain "$links" "$state.chain"
}

# median PEER ROW: of the rounds that did not fail, and how many did.
median() {
  if [ -e "$work/$1.$2" ]; then
    sort -n "$work/$1.$2" | awk '{ v[NR] = $1 } END { printf "%.2f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
  else
    printf -- '-'
  fi
  if [ -e "$work/failed.$1.$2" ]; then printf ' (%d failed)' "$(wc -l <"$work/failed.$1.$2")"; fi
}

present=()
for peer in $peers; do
  if install "$peer"; then
    present+=("$peer")
  else
    echo "left out: $peer cannot be installed: $(tail -n 1 "$work/install")"
  fi
done

for ((n = 1; n <= rounds; n++)); do
  for peer in "${present[@]}"; do round "$n" "$peer"; done
done

echo "seconds, medians of $rounds rounds in turn"
printf '%-12s %14s %14s %18s %14s\n' system "$commands commands" "chain of $links" "rerun of $commands" "cold start"
for peer in "${present[@]}"; do
  printf '%-12s %14s %14s %18s %14s\n' "$peer" "$(median "$peer" many)" "$(median "$peer" chain)" \
    "$(median "$peer" again)" "$(median "$peer" cold)"
done

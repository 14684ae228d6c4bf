#!/usr/bin/env bash
# What 100,000 stages cost: a run, the same again (all hits), check and plan, each as a whole command with its wall time, its
# CPU time (user and system) and its peak memory; then what lists and runs cost in a store of 10,000 finished runs.
#
# usage: benches/many_stages.sh TRAINYARD [STAGES=100000] [RUNS=10000] [FORMS="file matrix list"]
#
# Needs bash, python3 (standard library) and GNU time. $TMPDIR should be a disk: that is where the store lies. CPU time says
# more than wall time where other work shares the machine.
set -euo pipefail
program=$(readlink -f "$1"); stages=${2:-100000}; runs=${3:-10000}; forms=${4:-file matrix list}
here=$(dirname "$(readlink -f "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TRAINYARD_HOME="$scratch/home"
cd "$scratch"
python3 "$here/many_stages.py" files . "$stages"

measure() { # measure NAME ARGUMENTS…
  local name=$1; shift
  command time -f '%e %U %S %M' -o "$scratch/time" "$program" "$@" >"$scratch/output" 2>&1 || { cat "$scratch/output"; exit 1; }
  read -r wall user system peak <"$scratch/time"
  printf '%-34s %8.2f s %8.2f s user %7.2f s system %7.0f MiB\n' "$name" "$wall" "$user" "$system" "$((peak / 1024))"
}

echo "$stages stages, $(nproc) CPUs, store on $(df --output=fstype . | tail -n 1)"
printf '%-34s %10s\n' command wall
for form in $forms; do
  measure "$form: check" check "$form.yaml"
  measure "$form: run" run "$form.yaml" --store "$form"
  measure "$form: run again" run "$form.yaml" --store "$form"
  measure "$form: plan, all hits" plan "$form.yaml" --store "$form"
  measure "$form: plan, nothing there" plan "$form.yaml" --store nowhere
  measure "$form: runs show" runs show --store "$form" "$(ls "$form"/runs/* | tail -n 1)"
  measure "$form: runs list" runs list --store "$form"
  # Nothing is removed before the end: ext4 does not use the inodes of removed files again for a minute, and searches
  # long for others meanwhile.
done
echo "small file, a new store, then $runs finished runs"
measure "small: run" run small.yaml --store history
python3 "$here/many_stages.py" history history "$runs"
measure "history: run" run small.yaml --store history
measure "history: runs list" runs list --store history
measure "history: runs show" runs show --store history "$(ls history/runs/* | tail -n 1)"
measure "history: plan" plan small.yaml --store history

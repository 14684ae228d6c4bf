# Functions and variables of the steps. Sourced by .ci/run.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/trainyard-target}"
export CARGO_INCREMENTAL=0
scratch=$(mktemp -d)
servers=()
finish() {
  status=$?
  for server in "${servers[@]}"; do kill -9 "$server" 2>/dev/null; done
  rm -rf "$scratch"
  exit $status
}
trap finish EXIT

# lacks WHAT CONSEQUENCE: reports that this machine cannot run a check. Call it only after a test of the machine.
lacks() { echo "skipped: this machine has no $1: $2"; }

# has_network [npm]: whether a package index responds. The responses of one run are remembered.
has_network() {
  local index=${1:-pip}
  if [ ! -e "$scratch/$index.network" ]; then
    case $index in
      pip) python3 -m pip download --quiet --no-deps --dest "$scratch/probe" packaging >/dev/null 2>&1 ;;
      npm) command -v npm >/dev/null && npm view npm version >/dev/null 2>&1 ;;
    esac && echo yes >"$scratch/$index.network" || echo no >"$scratch/$index.network"
  fi
  [ "$(cat "$scratch/$index.network")" = yes ]
}

# again COMMAND…: runs COMMAND up to four times with pauses, because a package index may be away for a moment.
again() {
  local pause
  for pause in 5 20 60; do
    "$@" && return
    sleep "$pause"
  done
  "$@"
}

# fetch NAME PACKAGE…: a Python in $scratch/NAME with these packages. Fails if a network cannot provide them, and
# returns 1 without a network. uv installs in a third of the time of pip.
fetch() {
  has_network || { lacks "network" "$1 is not tested (${*:2})"; return 1; }
  local uv="$scratch/uv/bin/uv"
  [ -x "$uv" ] || again python3 -m pip install --quiet --target "$scratch/uv" 'uv==0.13.9' ||
    { echo "pip cannot install uv"; exit 1; }
  "$uv" venv --quiet --python "$(command -v python3)" "$scratch/$1" &&
    again "$uv" pip install --quiet --python "$scratch/$1/bin/python" "${@:2}" ||
    { echo "uv cannot install ${*:2}"; exit 1; }
}

# fetch_npm FOLDER PACKAGE…: npm packages in FOLDER. As `fetch`.
fetch_npm() {
  has_network npm || { lacks "npm with a network" "${*:2} are not tested"; return 1; }
  mkdir -p "$1"
  (cd "$1" && echo '{"private": true}' >package.json &&
    again npm install --ignore-scripts --no-audit --no-fund --silent "${@:2}" >/dev/null) ||
    { echo "npm cannot install ${*:2}"; exit 1; }
}

# free_ports N: free ports of loopback. All are chosen at once, so they differ.
free_ports() {
  python3 -c '
import socket, sys
free = [socket.socket() for _ in range(int(sys.argv[1]))]
[s.bind(("127.0.0.1", 0)) for s in free]
print(*[s.getsockname()[1] for s in free])' "$1"
}

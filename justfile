# Recipes of `just`.
default:
    @just --list

# The checks that every change must pass, and a quarter of the long ones; `just ci --all` runs all (docs/contributing).
ci *steps:
    bash .ci/run {{steps}}

# Format, walls, prose, and the tests that take less than two minutes after a build.
quick:
    bash .ci/run format walls quick

# Format, lint, and check the walls, the prose, the names in pages and the page of results.
check:
    cargo fmt --all --check
    .ci/guards
    .ci/prose
    .ci/doc_names
    benches/report --check
    cargo clippy --workspace --all-targets -- -D warnings

# A wheel and a tarball of the program in `target/package`, installed and tried (docs/install.md).
package:
    cargo build --release
    .ci/package --program "${CARGO_TARGET_DIR:-target}/release/trainyard" --out "${CARGO_TARGET_DIR:-target}/package"

# The same for systems with glibc 2.28 or newer, compiled and linked by zig (pip).
package-portable target="x86_64-unknown-linux-gnu":
    python3 -m venv "${CARGO_TARGET_DIR:-target}/zig"
    "${CARGO_TARGET_DIR:-target}/zig/bin/pip" install --quiet cargo-zigbuild==0.24.1 ziglang==0.17.1
    PATH="$(realpath "${CARGO_TARGET_DIR:-target}")/zig/bin:$PATH" \
        cargo zigbuild --locked --release --package trainyard --target {{target}}.2.28
    .ci/package --program "${CARGO_TARGET_DIR:-target}/{{target}}/release/trainyard" \
        --out "${CARGO_TARGET_DIR:-target}/package" --glibc 2.28

# Tests of the whole workspace.
test:
    cargo test --workspace

# Fuzz a target (fuzz/README.md) for some minutes.
fuzz TARGET MINUTES:
    fuzz/run {{TARGET}} {{MINUTES}}

# The whole pipeline, from random weights.
quickstart:
    cargo run --release -- run workflows/quickstart.yaml

# Every recipe in full size, its mechanism on and off, then the pages about them.
recipes:
    cargo run --release -- recipes run
    cargo run --release -- recipes --write docs/systems.md

# Two daemons, real kills: each tick once.
schedules ticks="1000":
    cargo build --release
    bash benches/schedules.sh "${CARGO_TARGET_DIR:-target}/release/trainyard" {{ticks}}

# Two daemons with a thousand schedules among kills, a dead bucket and half-open clients: no tick is late.
soak seconds="600":
    cargo build --release
    python3 benches/soak.py "${CARGO_TARGET_DIR:-target}/release/trainyard" --seconds {{seconds}}

# Engine, attempts and an S3 server are killed at random moments: nothing is lost, nothing differs.
kills rounds="200":
    bash benches/kills.sh {{rounds}}

# Measure 100,000 stages and 10,000 finished runs.
stages count="100000":
    cargo build --release
    bash benches/many_stages.sh "${CARGO_TARGET_DIR:-target}/release/trainyard" {{count}}

# Simulate engines, attempts, store and cluster with faults, seed after seed (docs/design/0016).
simulate seeds="10000" first="0":
    TRAINYARD_SIMULATION_SEEDS={{seeds}} TRAINYARD_SIMULATION_FIRST={{first}} \
        cargo test --package trainyard-runtime simulation::seeds::nothing -- --nocapture

# Rewrite the generated files: workflows/schema.json.
generate:
    cargo run -- schema > workflows/schema.json

# Write docs/results.md from the records in benches/records (docs/contributing/results.md).
report:
    benches/report

# Append a series to benches/records/SUBJECT.toml, with today's date, the commit and this machine.
record SUBJECT:
    benches/report --add {{SUBJECT}}

# The suites of executors on a real Slurm (root, Debian's packages) and a real Ray (pip), started for the tests.
clusters:
    .ci/slurm -- cargo test --package trainyard --test suite slurm::
    .ci/slurm --no-accounting -- cargo test --package trainyard --test suite slurm:: -- --skip executors::
    .ci/ray -- cargo test --package trainyard --test suite ray:: -- --test-threads 3 --skip a_lost_node
    .ci/ray -- cargo test --package trainyard --test suite a_lost_node

# Tests, lints and manifests of the executor `kubernetes`, which the default build leaves out.
kubernetes:
    cargo test --package trainyard-kubernetes --features client
    cargo clippy --workspace --all-targets \
        --features trainyard/kubernetes,trainyard-kubernetes/client -- -D warnings
    .ci/kubernetes-schemas

# The programs of docs/ecosystem.md with our files and interfaces, fetched into `folder` (python3, npm).
consumers folder="target/consumers":
    .ci/consumers {{folder}}

# What the rows share; each script of bench/scorecard begins with it.
set -euo pipefail
bin=build/release/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# row NAME WHAT MUST MEASURED true|false
row() {
  jq -nc --arg name "$1" --arg what "$2" --arg must "$3" --arg measured "$4" --argjson ok "$5" \
    '{$name, $what, $must, $measured, $ok}'
}

# Open MPI's launcher. It wants to be asked twice before it runs as root, as in a container.
open_mpi() {
  env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi "$@"
}

mpich() { mpirun.mpich "$@"; }

# sinew-run's output without the "[RANK] " before each line
sinew_run() { "$bin/sinew-run" "$@" | sed 's/^\[[0-9]*\] //'; }

# Over the lines of several runs in $1: [{bytes, speedup (median of the runs)}] in order of size.
medians_by_size() {
  jq -s 'group_by(.bytes) | map({bytes: .[0].bytes, speedup: (map(.speedup) | sort | .[length / 2 | floor])})' "$1"
}

# What spoils a measurement: results that are wrong, neighbours that took the machine.
spoilt() {
  jq -rs '[(map(.wrong) | add // 0 | select(. != 0) | "\(.) wrong"),
           (map(select(.noisy)) | length | select(. != 0) | "\(.) lines noisy")] | join(", ")' "$1"
}

# with_note TEXT NOTE: "TEXT (NOTE)", or TEXT alone
with_note() { echo "$1${2:+ ($2)}"; }

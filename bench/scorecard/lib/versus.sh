# Sweeps of sinew-bench beside an MPI in the same processes, by powers of two. Sourced after row.sh.
runs=5
first_power=3 last_power=26  # the sizes: 8 B..64 MiB
sandbox=()  # a program that starts each rank, with its arguments
least_bytes=8  # sizes below count for nothing

# versus MPI FILE FIRST LAST RANKS COLLECTIVE [options]: adds the lines of one sweep that no neighbour disturbed. MPI is open_mpi or
# mpich, the launcher whose library the ranks compare with, or peer_NAME, an MPI of ./run peers (strongest.sh).
versus() {
  local mpi=$1 file=$2 first=$3 last=$4 ranks=$5
  shift 5
  local -a sweep=("${sandbox[@]}" "$bin/sinew-bench" "$@" -b "$first" -e "$last" -f 2 --json "$scratch/run")
  case $mpi in
    peer_*) with_peer "${mpi#peer_}" "$ranks" "${sweep[@]}" --peer "$(peer_folder "${mpi#peer_}")" >&2 ;;
    *) "$mpi" -n "$ranks" "${sweep[@]}" --peer mpi >&2 ;;
  esac
  jq -c 'select(.noisy | not)' "$scratch/run" >>"$file"
}

# missing FILE: the sizes that have fewer good lines than there shall be runs
missing() { jq -sr --argjson runs $runs '[range('"$first_power; $((last_power + 1))"') | pow(2; .)] - (group_by(.bytes) | map(select(length >= $runs)[0].bytes)) | .[]' "$1"; }

# measure MPI FILE RANKS COLLECTIVE [options]: all runs; a size that a neighbour disturbed is measured again, three more
# times at most per run
measure() {
  local mpi=$1 file=$2 size
  shift 2
  : >"$file"
  for ((i = 0; i < runs; ++i)); do versus "$mpi" "$file" $((1 << first_power)) $((1 << last_power)) "$@"; done
  for ((i = 0; i < 3 * runs; ++i)); do
    for size in $(missing "$file"); do versus "$mpi" "$file" "$size" "$size" "$@"; done
  done
}

# judge FILE: sets worst (a number), slowest (worst, and where), mean, note and clean
judge() {
  medians_by_size "$1" | jq --argjson least $least_bytes 'map(select(.bytes >= $least))' >"$scratch/medians"
  worst=$(jq 'map(.speedup) | min' "$scratch/medians")
  slowest=$(jq -r 'min_by(.speedup) | "\(.speedup * 1000 | round / 1000) at \(.bytes) B"' "$scratch/medians")
  mean=$(jq -r 'map(.speedup | log) | add / length | exp * 1000 | round / 1000' "$scratch/medians")
  note=$(spoilt "$1")
  if [ -n "$(missing "$1")" ]; then note="$note${note:+, }noisy at $(missing "$1" | paste -sd ' ') B"; fi
  clean=$([ -z "$note" ] && echo true || echo false)
}

# What the same bits everywhere cost: time of an all_reduce of f32 at each level of determinism over that of fast, on one
# host, over shared memory, measured in turns.
# DETERMINISM_RUNS: another number of turns than 5.
source bench/scorecard/lib/row.sh

runs=${DETERMINISM_RUNS:-5}
sizes="8 64KiB 4MiB 64MiB"
levels="fast reproducible layout_invariant"

# lines RANKS: one turn of all sizes and levels, added to $scratch/RANKS
lines() {
  local size level
  for size in $sizes; do
    for level in $levels; do
      "$bin/sinew-run" -n "$1" "$bin/sinew-bench" all_reduce -b "$size" -e "$size" --transport shm \
        --determinism "$level" --json "$scratch/run" >&2
      cat "$scratch/run" >>"$scratch/$1"
    done
  done
}

# over_fast RANKS LEVEL: "1.02 at 8 B; ..." of medians
over_fast() {
  jq -rs --arg level "$2" 'def median: sort | .[length / 2 | floor];
    group_by(.bytes) | map(
      (map(select(.determinism == "fast").time_us) | median) as $fast |
      (map(select(.determinism == $level).time_us) | median) as $slow |
      "\($slow / $fast * 100 | round / 100) at \(.[0].bytes) B (\($slow * 100 | round / 100) us)") | join("; ")' "$scratch/$1"
}

for ranks in 2 4; do
  : >"$scratch/$ranks"
  for ((i = 0; i < runs; ++i)); do lines $ranks; done
  note=$(spoilt "$scratch/$ranks")
  for level in reproducible layout_invariant; do
    row "${level}_${ranks}_ranks" "all_reduce on $ranks ranks of a host, $level: time over that of fast, medians of $runs" \
      "shown" "$(with_note "$(over_fast $ranks $level)" "$note")" "$([ -z "$note" ] && echo true || echo false)"
  done
done

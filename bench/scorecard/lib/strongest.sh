# Collectives over shared memory on one host, side by side with the strongest MPIs of ./run peers in the same processes. At each
# size the fastest of them counts, by the median of three runs. Sourced after row.sh and versus.sh.
source cmake/run/common.sh
source cmake/run/packages.sh
source cmake/run/peers.sh
runs=3

# strongest_lines NAME RANKS COLLECTIVE [options]: measures beside all peers, a file of lines for each
strongest_lines() {
  local name=$1 peer
  shift
  for peer in "${peer_names[@]}"; do
    install_peer "$peer"
    measure "peer_$peer" "$scratch/$name.$peer" "$@" --transport shm
  done
}

# judge_strongest NAME [PEER..]: sets worst (a number), slowest (worst, where and beside whom), mean and note, of the fastest of
# these peers at each size from least_bytes on
judge_strongest() {
  local name=$1 peer extra
  shift
  local -a peers=("$@")
  note=''
  [ ${#peers[@]} -gt 0 ] || peers=("${peer_names[@]}")
  for peer in "${peers[@]}"; do
    medians_by_size "$scratch/$name.$peer" | jq -c --arg peer "$peer" '.[] + {peer: $peer}'
    extra=$(spoilt "$scratch/$name.$peer")
    if [ -n "$(missing "$scratch/$name.$peer")" ]; then extra="$extra${extra:+, }noisy at $(missing "$scratch/$name.$peer" | paste -sd ' ') B"; fi
    note="$note${extra:+${note:+; }$peer: $extra}"
  done >"$scratch/all"
  jq -s --argjson least "$least_bytes" 'map(select(.bytes >= $least)) | group_by(.bytes) | map(min_by(.speedup))' "$scratch/all" >"$scratch/medians"
  if [ "$(jq length "$scratch/medians")" -eq 0 ]; then
    worst=0 slowest='every line was noisy' mean=0
    return
  fi
  worst=$(jq 'map(.speedup) | min' "$scratch/medians")
  slowest=$(jq -r 'min_by(.speedup) | "\(.speedup * 1000 | round / 1000) at \(.bytes) B (\(.peer))"' "$scratch/medians")
  mean=$(jq -r 'map(.speedup | log) | add / length | exp * 1000 | round / 1000' "$scratch/medians")
}

# strongest_everywhere NAME LIMIT WHAT [PEER..] and strongest_mean NAME LIMIT WHAT [PEER..]: a row of the lines of NAME
strongest_everywhere() {
  local name=$1 limit=$2 what=$3
  shift 3
  judge_strongest "${name%%/*}" "$@"
  row "${name//\//_}_everywhere" "time of the fastest of ${*:-${peer_names[*]}} / ours: $what, worst size of $least_bytes B..64 MiB, medians of three runs" \
    ">= $limit" "$(with_note "$slowest" "$note")" "$(jq -n "$worst >= $limit")"
}
strongest_mean() {
  local name=$1 limit=$2 what=$3
  shift 3
  judge_strongest "${name%%/*}" "$@"
  row "${name//\//_}_mean" "time of the fastest of ${*:-${peer_names[*]}} / ours: $what, geometric mean over $least_bytes B..64 MiB" \
    ">= $limit" "$(with_note "$mean" "$note")" "$(jq -n "$mean >= $limit")"
}

# strongest_rows NAME EVERYWHERE MEAN COLLECTIVE [options]: measures on 2 ranks, and prints both rows; a limit of - is none
strongest_rows() {
  local name=$1 everywhere=$2 least_mean=$3
  shift 3
  strongest_lines "$name" 2 "$@"
  if [ "$everywhere" != - ]; then strongest_everywhere "$name" "$everywhere" "$*"; fi
  if [ "$least_mean" != - ]; then strongest_mean "$name" "$least_mean" "$*"; fi
}

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
    peer_offers "$peer" "$2" || continue
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
    if [ ! -e "$scratch/$name.$peer" ]; then continue; fi
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

# strongest_row everywhere|mean NAME LIMIT WHAT [PEER..]: a row for the worst size, or for the geometric mean. NAME is that of the
# lines; what follows a / belongs to the name of the row only.
strongest_row() {
  local kind=$1 name=$2 limit=$3 what=$4 of measured found
  shift 4
  judge_strongest "${name%%/*}" "$@"
  case $kind in
    everywhere) of='worst size' measured=$worst found=$slowest ;;
    mean) of='geometric mean' measured=$mean found=$mean ;;
  esac
  row "${name//\//_}_$kind" "time of the fastest of ${*:-${peer_names[*]}} / ours: $what, $of of $least_bytes..$((1 << last_power)) B, medians of three runs" \
    ">= $limit" "$(with_note "$found" "$note")" "$(jq -n "$measured >= $limit")"
}

# strongest_rows NAME EVERYWHERE MEAN COLLECTIVE [options]: measures on 2 ranks, and prints both rows; a limit of - is none
strongest_rows() {
  local name=$1 everywhere=$2 least_mean=$3
  shift 3
  strongest_lines "$name" 2 "$@"
  if [ "$everywhere" != - ]; then strongest_row everywhere "$name" "$everywhere" "$*"; fi
  if [ "$least_mean" != - ]; then strongest_row mean "$name" "$least_mean" "$*"; fi
}

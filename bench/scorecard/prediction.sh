# What sinew-bench tune has timed, taken as a prediction: beside what the same collectives take afterwards, at sizes of which half were not timed.
source bench/scorecard/lib/row.sh

collectives="all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter all_gatherv reduce_scatterv barrier"

# lines_of FILE RUN...: appends the lines of every collective; RUN starts sinew-bench with what follows. A sweep with
# noisy lines is run again, $tries times in all at most, and the one with the fewest counts.
lines_of() {
  local file=$1 collective try noisy fewest
  shift
  for collective in $collectives; do
    fewest=
    for ((try = 0; try < tries; ++try)); do
      "$@" "$collective" -b 8 -e $largest -f 8 -n 11 -w 2 --json "$scratch/sweep" >/dev/null || return
      noisy=$(jq -s 'map(select(.noisy)) | length' "$scratch/sweep")
      if [ -z "$fewest" ] || [ "$noisy" -lt "$fewest" ]; then
        fewest=$noisy
        mv "$scratch/sweep" "$scratch/best"
      fi
      [ "$fewest" -gt 0 ] || break
    done
    cat "$scratch/best" >>"$file"
  done
}

# prediction_row NAME WHAT RUN...
prediction_row() {
  local row=$1 what=$2  # not name, which is the hosts'
  shift 2
  rm -f "$scratch/before" "$scratch/after" "$scratch/tuned"
  lines_of "$scratch/before" "$@"
  "$@" tune -e $largest -f 4 --output "$scratch/tuned" >&2
  SINEW_TUNE_FILE=$scratch/tuned lines_of "$scratch/after" "$@"
  local share='[.[] | select(.predicted_us > 0) | (.time_us / .predicted_us) | (. <= 2 and . >= 0.5)] | 100 * (map(select(.)) | length) / length'
  local before after note
  before=$(jq -s "$share" "$scratch/before")
  after=$(jq -s "$share" "$scratch/after")
  note=
  if [ "$tries" -gt 1 ]; then note=$(spoilt "$scratch/after"); fi
  row "$row" "$what: lines of all collectives whose predicted time is within a factor of 2" ">= 90 %" \
    "$(with_note "$(jq -n "$after | . * 10 | round / 10") % of $(wc -l <"$scratch/after"), $(jq -n "$before | . * 10 | round / 10") % before tune" "$note")" \
    "$(jq -n "$after >= 90 and \"$note\" == \"\"")"
  cat "$scratch/after" >>"$scratch/all"
}

run_here() { "$bin/sinew-run" -n 2 "$bin/sinew-bench" "$@"; }
run_tcp() { "$bin/sinew-run" -n 2 "$bin/sinew-bench" "$@" --transport tcp; }
run_hosts() { on_all "$PWD/$bin/sinew-run" 2,2 "$PWD/$bin/sinew-bench" "$@"; }

tries=3
largest=64MiB
prediction_row prediction_shm "2 ranks of a host" run_here
prediction_row prediction_tcp "2 ranks of a host, tcp" run_tcp
if ! unshare -n true 2>/dev/null; then
  row prediction_hosts "2 hosts with 2 ranks each" "measured" "not measured: no network namespaces here" false
  exit 0
fi
largest=16MiB
(
  source tests/hosts/namespaces.sh
  make_hosts 2 1 2gbit
  tries=1  # to ranks of one host those of the other are neighbours: both hosts are this machine
  prediction_row prediction_hosts "2 hosts with 2 ranks each, joined by 2 Gbit/s" run_hosts
)
error=$(jq -s '[.[] | select(.predicted_us > 0) | 100 * (.time_us / .predicted_us - 1) | fabs] | sort | .[length / 2 | floor] * 10 | round / 10' "$scratch/all")
row prediction_error "the same lines of all three: how far the predicted time is off, median" "< 30 %" "$error %" "$(jq -n "$error < 30")"

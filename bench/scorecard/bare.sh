# Times ./run bench and ./run test in a bare Debian that is made for it, as root. The times include the installation of
# packages. ./run test may take 45 minutes, because it installs PyTorch and runs its suite. BARE_JOBS=bench leaves it out.
source bench/scorecard/lib/row.sh

# seconds_at LOG PATTERN: from the start of the job to the last stage of that name
seconds_at() {
  sed -n "s/^== \([0-9]*\):\([0-9][0-9]\) $2.*/\1 \2/p" "$1" | awk '{ at = $1 * 60 + $2 } END { print NR ? at : "null" }'
}

# bare_row NAME WHAT LIMIT LOG PATTERN
bare_row() {
  local seconds
  seconds=$(seconds_at "$4" "$5")
  row "$1" "bare Debian 12, $(nproc) cores: $2" "<= $3 s" "$seconds s" "$(jq -n "$seconds != null and $seconds <= $3")"
}

for job in ${BARE_JOBS:-bench test}; do
  log=$scratch/$job.log
  status=0
  ./run bare "$job" >"$log" 2>&1 || status=$?
  if [ "$job" = bench ]; then
    bare_row bare_bench_first "./run bench, until its first measured line" 240 "$log" "first measured line"
    bare_row bare_bench "./run bench, until its end" 360 "$log" "done"
  else
    bare_row bare_test "./run test, until its end" 2700 "$log" "all checks are over"
  fi
  if [ $status -ne 0 ]; then row "bare_$job" "./run bare $job" "exit code 0" "$status" false; fi
done

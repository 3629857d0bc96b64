# What is built again after a change: one source of a library with the test program that covers it, and a header that
# everything includes. No compiler's cache helps.
source bench/scorecard/lib/row.sh
export CCACHE_DISABLE=1

# again TARGET..: builds in build/release what is out of date, at full width
again() { cmake --build build/release -j "$(nproc)" --target "$@" >"$scratch/again.log" 2>&1 || cat "$scratch/again.log" >&2; }
seconds_of() {
  local begin
  begin=$(date +%s%N)
  "$@" >"$scratch/output" 2>&1
  jq -n "$(date +%s%N) - $begin | . / 1e8 | round / 10"
}

library_and_test() {
  again sinew_collectives "$1" && "$bin/$1"
}

# In batches of their own: selection, the executor, the calls.
for pair in selector.cpp:test_selection executor.cpp:test_execution arguments.cpp:test_arguments; do
  source=collectives/${pair%:*}
  test=${pair#*:}
  again all
  touch "$source"
  seconds=$(seconds_of library_and_test "$test")
  row "touch_${pair%.cpp:*}" "after a change of $source: the library and $test built and run" "< 40 s" "$seconds s" \
    "$(jq -n "$seconds < 40")"
done

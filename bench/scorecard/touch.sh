# Times a build after a change, without a compiler cache: of one source and the test program that covers it, and of a
# header that nearly all sources include.
source bench/scorecard/lib/row.sh
export CCACHE_DISABLE=1

# build FOLDER TARGET..: rebuilds the targets; shows the output only on failure
build() {
  local folder=$1
  shift
  cmake --build "$folder" -j "$(nproc)" --target "$@" >"$scratch/said" 2>&1 || {
    cat "$scratch/said" >&2
    return 1
  }
}

# seconds_of COMMAND..: how long it takes; "failed" where it does not succeed
seconds_of() {
  local begin
  begin=$(date +%s%N)
  if "$@"; then jq -n "$(date +%s%N) - $begin | . / 1e8 | round / 10"; else echo failed; fi
}

# touch_row NAME FILE WHAT LIMIT COMMAND..
touch_row() {
  local name=$1 file=$2 what=$3 limit=$4 seconds
  shift 4
  touch "$file"
  seconds=$(seconds_of "$@")
  row "$name" "after a change of $file: $what" "< $limit s" "$seconds s" \
    "$(jq -n --arg s "$seconds" "\$s != \"failed\" and (\$s | tonumber) < $limit")"
}

build_and_run() { build build/release "$1" && "$bin/$1" >"$scratch/tests"; }

for pair in selector:test_selection executor:test_execution communicator:test_communicator; do
  touch_row "touch_${pair%:*}" "collectives/${pair%:*}.cpp" "the library and ${pair#*:} built, and that run" 40 \
    build_and_run "${pair#*:}"
done

untested=build/untested
cmake --preset release -B "$untested" -DSINEW_BUILD_TESTS=OFF >"$scratch/said" 2>&1
(unset CCACHE_DISABLE && build "$untested" all)
touch_row touch_buffer core/buffer.hpp "the release build without tests" 360 build "$untested" all

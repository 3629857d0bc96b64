# Random calls and disturbed trainings for a long time: right results, no hangs, and nothing that grows.

# soak_part NAME RANKS OPTION..: a line of JSON with the part's name; the variables of the caller hold.
soak_part() {
  local name=$1 ranks=$2 line
  shift 2
  say "soak: $name, $ranks ranks, $*"
  line=$(build/release/bin/sinew-run -n "$ranks" build/release/bin/soak "$@" | sed -n 's/^\(\[0\] \)\?\({.*\)$/\2/p') || true
  [ -n "$line" ] || line='{"ok": false}'
  jq -c --arg part "$name" '{part: $part} + .' <<<"$line"
}

# soak_trainings KILLS SEED: a training whose processes are killed, one or several at a time, until so many have been killed; a line of
# JSON. Losses are those of an undisturbed run, and each dead process is named.
soak_trainings() {
  local line
  say "soak: a training, $1 kills"
  line=$(build/release/bin/changes --gpt build/release/bin/gpt --sinew-run build/release/bin/sinew-run --changes 1 --kills "$1" --seed "$2" \
    --ranks 8 --min-ranks 4 --save-every 10 --steps 1000000 -- --tp 2 --pp 2 --micro-batches 2 \
    --layers 2 --width 32 --heads 2 --context 16 --batch 12 --dtype f64) || true
  [ -n "$line" ] || line='{"failures": 1}'
  jq -c --argjson kills "$1" '{part: "a training", ok: (.hangs == 0 and .failures == 0 and .unreported == 0 and .misnamed == 0
    and .nameless == 0 and .kills >= $kills and .worst <= 1e-10)} + .' <<<"$line"
}

# soak_fuzzers SECONDS: every fuzzer for so long, from its corpus and what it has found before; a line of JSON for each.
soak_fuzzers() {
  local program name found corpus
  for program in build/fuzz/bin/fuzz_*; do
    name=$(basename "$program")
    found=build/fuzz_found/$name
    corpus=tests/fuzz/corpus/$name
    say "soak: $name, $1 s"
    mkdir -p "$found"
    if "$program" "-max_total_time=$1" -timeout=5 -rss_limit_mb=1024 "-artifact_prefix=$found/" "$found" "$corpus" \
      >"build/soak_$name.log" 2>&1; then
      jq -nc --arg part "$name" '{$part, ok: true}'
    else
      tail -n 20 "build/soak_$name.log" >&2
      jq -nc --arg part "$name" --arg log "build/soak_$name.log" '{$part, ok: false, $log}'
    fi
  done
}

# The minutes are shared by the parts, of which the fuzzers are one. The training has 35 kills for each minute, which take some 15 seconds.
run_soak() {
  local minutes=30 seed=1 each parts=() transport
  while [ $# -gt 0 ]; do
    case $1 in
      --minutes | --seed)
        [[ "${2-}" =~ ^[0-9]+(\.[0-9]+)?$ && ($1 == --seed || "$2" =~ [1-9]) ]] ||
          die "soak: $1 '${2-}': expected a number, of minutes one above 0"
        [[ $1 == --minutes || "$2" != *.* ]] || die "soak: --seed '$2': expected a whole number"
        printf -v "${1#--}" '%s' "$2"
        shift 2
        ;;
      *) die "soak: there is no option '$1'; expected --minutes N, --seed N" ;;
    esac
  done
  need_packages bench build sanitize scorecard
  configure release
  compile release sinew-run soak gpt changes sinew_modules
  configure fuzz
  compile fuzz fuzzers
  for transport in shm tcp ucx ofi; do
    if [[ $transport == shm || $transport == tcp || -e build/release/lib/sinew-modules/sinew_$transport.so ]]; then
      parts+=("$transport")
    else
      say "soak: not over $transport: it was not built (./run build says why)"
    fi
  done
  each=$(jq -n "$minutes / $((${#parts[@]} + 2))")
  for transport in "${parts[@]}"; do
    SINEW_TRANSPORTS=$transport soak_part "$transport" 4 --minutes "$each" --seed "$seed"
  done >build/soak.json
  soak_part "two hosts, all transports" 4 --hosts 2 --minutes "$each" --seed "$seed" >>build/soak.json
  soak_trainings "$(jq -n "$minutes * 35 | ceil")" "$seed" >>build/soak.json
  local fuzzers=(build/fuzz/bin/fuzz_*)
  soak_fuzzers "$(jq -n "[$each * 60 / ${#fuzzers[@]}, 1] | max | floor")" >>build/soak.json
  cat build/soak.json
  jq -es 'all(.[]; .ok)' build/soak.json >/dev/null
}

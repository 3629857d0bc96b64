# Every promised figure, measured again on this machine. A row is a line of JSON that a script in bench/scorecard prints:
#   {"name", "what", "must", "measured", "ok"}

scorecard_table() {
  jq -r '[.name, (if .ok then "ok" else "NOT OK" end), .measured, .must, .what] | @tsv' "$1" |
    awk -F '\t' '
      BEGIN { row[0] = "name\tok\tmeasured\tmust\twhat" }
      { row[NR] = $0 }
      END {
        for (r = 0; r <= NR; ++r) { split(row[r], cell); for (c = 1; c < 5; ++c) if (length(cell[c]) > width[c]) width[c] = length(cell[c]) }
        for (r = 0; r <= NR; ++r) { split(row[r], cell); for (c = 1; c < 5; ++c) printf "%-*s  ", width[c], cell[c]; print cell[5] }
      }'
}

run_scorecard() {
  local json=false argument script rows status
  local -a scripts=()
  for argument in "$@"; do
    script=bench/scorecard/$argument.sh
    case $argument in
      --json) json=true ;;
      -*) die "scorecard: there is no option '$argument'; expected --json" ;;
      *)
        [ -e "$script" ] ||
          die "scorecard: there is no row '$argument'; expected some of: $(cd bench/scorecard && echo *.sh | sed 's/\.sh//g')"
        scripts+=("$script")
        ;;
    esac
  done
  if [ ${#scripts[@]} -eq 0 ]; then scripts=(bench/scorecard/*.sh); fi
  need_packages bench build scorecard package
  make_python_environment
  configure release
  compile release
  rows=$PWD/build/scorecard.json
  : >"$rows"
  for script in "${scripts[@]}"; do
    say "scorecard: $(basename "$script" .sh)"
    status=0
    bash "$script" >"$rows.part" || status=$?
    cat "$rows.part" >>"$rows"
    if [ $status -ne 0 ]; then
      jq -nc --arg name "$(basename "$script" .sh)" --arg status "$status" \
        '{$name, what: "its script", must: "exit code 0", measured: $status, ok: false}' >>"$rows"
    fi
  done
  rm -f "$rows.part"
  if $json; then cat "$rows"; else scorecard_table "$rows"; fi
  jq -es 'length > 0 and all(.[]; .ok)' "$rows" >/dev/null
}

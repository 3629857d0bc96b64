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

# scorecard_commit: what the rows are measured on; a tree with changes is none that a later run may trust.
scorecard_commit() { echo "$(git rev-parse HEAD)$(git diff --quiet HEAD || echo ' with changes')"; }

run_scorecard() {
  local json=false continued=false argument script name rows status
  local -r folder=$PWD/build/scorecard
  local -a scripts=()
  for argument in "$@"; do
    script=bench/scorecard/$argument.sh
    case $argument in
      --json) json=true ;;
      --continue) continued=true ;;
      -*) die "scorecard: there is no option '$argument'; expected --json or --continue" ;;
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
  compile release all exhaustive_tests
  if $continued && [ "$(cat "$folder/commit" 2>/dev/null)" != "$(git rev-parse HEAD)" ]; then
    die "scorecard: --continue needs rows of this commit, $(git rev-parse --short HEAD), but $folder has those of '$(cat "$folder/commit" 2>/dev/null)'; start without it"
  fi
  $continued || rm -rf "$folder"
  mkdir -p "$folder"
  scorecard_commit >"$folder/commit"
  for script in "${scripts[@]}"; do
    name=$(basename "$script" .sh)
    rows=$folder/$name.json
    if [ -e "$rows" ]; then continue; fi
    say "scorecard: $name"
    status=0
    bash "$script" >"$rows.part" || status=$?
    if [ $status -ne 0 ]; then
      jq -nc --arg name "$name" --arg status "$status" \
        '{$name, what: "its script", must: "exit code 0", measured: $status, ok: false}' >>"$rows.part"
    fi
    mv "$rows.part" "$rows"
  done
  rows=$folder.json
  for script in "${scripts[@]}"; do cat "$folder/$(basename "$script" .sh).json"; done >"$rows"
  if $json; then cat "$rows"; else scorecard_table "$rows"; fi
  jq -es 'length > 0 and all(.[]; .ok)' "$rows" >/dev/null
}

# Does a file compile without its neighbours? Merged sources (SINEW_UNITY) hide a missing include.

# Sources and headers that differ from what the last commit began with.
changed_files() {
  git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
  local base=HEAD
  if git rev-parse --quiet --verify HEAD~1 >/dev/null; then base=HEAD~1; fi
  (git diff --name-only --diff-filter=d "$base" -- '*.cpp' '*.hpp' && git ls-files --others --exclude-standard -- '*.cpp' '*.hpp') |
    sort -u
}

# Public headers: headers of the libraries that README.md or docs/ name.
public_headers() {
  source_files 'core/*.hpp' 'topology/*.hpp' 'transports/*.hpp' 'collectives/*.hpp' 'parallel/*.hpp' |
    awk -F / 'NR == FNR { named[$0] = 1; next } $NF in named' \
      <(grep -oh '`[a-z0-9_/]*\.hpp`' README.md docs/*.md | sed 's|.*/||; s|[`]||g') -
}

# compile_alone FILE..: each for itself, syntax only, with the options of its own source file or, for a header, of a source
# in its folder. Files that no target of this build compiles (fakes for other programs, consumers) are passed over. So are
# modules of peers, because only their own targets, or sinew-bench, know which folder has the peer's files.
compile_alone() {
  configure unmerged 2>/dev/null || return 1
  local list=build/unmerged/compile_commands.json
  printf '%s\n' "$@" | { xargs -d '\n' grep -LE '^#include <(mpi\.h|shm\.cpp)>' || true; } | jq -rR --slurpfile commands "$list" --arg root "$PWD/" '
    def options: (.command | gsub(" -o [^ ]+ -c [^ ]+$"; "") | gsub(" -include [^ ]+cmake_pch.hxx"; "")
      | gsub("^.*?(?<compiler>[^ ]*c[+][+]) "; "\(.compiler) "));
    . as $file | ($file | sub("/[^/]*$"; "")) as $folder
    | [$commands[0][] | select(.file | startswith($root))] as $all
    | ([$all[] | select(.file == $root + $file)]
       + [$all[] | select(.file == $root + ($file | sub("hpp$"; "cpp")))]
       + [$all[] | select(.file | startswith($root + $folder + "/"))])[0]
    | select(. != null) | "\($file)\t\(.directory)\t\(options)"' |
    xargs -d '\n' -r -P "$(jobs_that_fit)" -n 1 bash -c '
      IFS=$'"'\t'"' read -r file directory options <<<"$1"
      root=$PWD
      cd "$directory" || exit 1
      echo "#include \"$root/$file\"" | eval "$options -fsyntax-only -x c++ -" && exit 0
      echo "$file does not compile alone" >&2
      exit 1' alone
}

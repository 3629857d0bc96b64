# What a reader should not have to check by eye. Each check prints what it found and where.

# Prints what it reads; not ok if that is anything.
nothing() { ! grep .; }

# C++ and C.
code_files() { source_files '*.cpp' '*.hpp' '*.c' '*.h'; }

lint_layout() {
  clang-format-16 --version >/dev/null
  (code_files | xargs -r clang-format-16 --dry-run 2>&1) |
    awk -F : '/warning:|error:/ && !seen[$1]++ { print $1 ":" $2 ": not as clang-format lays it out; ./run format does it" }' |
    nothing
}

lint_includes() { code_files | xargs -r awk -v table=cmake/lint/may_include.txt -f cmake/lint/includes.awk; }

lint_rooms() { python3 cmake/lint/rooms.py check; }

# Code for one kind of CPU: only where the rest of the code asks for it by a portable name.
lint_intrinsics() {
  source_files '*.cpp' '*.hpp' | sed '/^core\/host\/cpu\.[ch]pp$/d' |
    xargs -r awk '/(^|[^A-Za-z_])_mm[0-9]*_|__builtin_ia32|[a-z]mmintrin\.h|cpuid\.h|(^|[^A-Za-z_])(__)?asm(__)?( volatile)?[ \t]*\(/ {
      print FILENAME ":" FNR ": code for one kind of CPU belongs into core/host/cpu.hpp: " $0 }' | nothing
}

# The page size is a question to the system. A 4096 that is something else says so: "not a page".
lint_page_size() {
  source_files '*.cpp' '*.hpp' | sed -nE '/^(core|topology|transports|collectives|c|parallel)\//p' |
    xargs -r awk '!/not a page/ && /(^|[^0-9A-Za-z_.])(4096|0x1000|4 ?\* ?1024|4 ?<< ?10|1[UL]* ?<< ?12)([^0-9A-Za-z_.]|$)/ {
      print FILENAME ":" FNR ": a page size? ask sysconf, or say in a comment that it is not a page: " $0 }' | nothing
}

# The time of day jumps; whoever waits or measures asks a clock that does not. What must know the date says why.
lint_clock() {
  source_files '*.cpp' '*.hpp' | sed -nE '/^(core|topology|transports|collectives|c|parallel)\//p' |
    xargs -r awk '!/time of day/ && /system_clock|gettimeofday|CLOCK_REALTIME|[^A-Za-z_]time\((NULL|nullptr|0)\)/ {
      print FILENAME ":" FNR ": the time of day? ask Clock, or say in a comment why the time of day is meant: " $0 }' | nothing
}

lint_lengths() {
  local file lines bad=0
  while read -r file; do
    lines=$(wc -l <"$file")
    if [ "$lines" -gt 500 ]; then
      echo "$file: $lines lines (500 are the limit): give some of its jobs to types of their own"
      bad=1
    fi
  done < <(code_files && source_files '*.sh' '*.cmake')
  return $bad
}

# The rules of language for comments, as far as a program can judge them. Old files may keep what they had.
judge_comments() { (code_files && source_files '*.py') | python3 cmake/lint/comments.py "$1"; }

lint_comments() { judge_comments check; }

lint_shell() {
  local file bad=0
  for file in run .ci/run $(source_files '*.sh'); do bash -n "$file" || bad=1; done
  return $bad
}

# clang-tidy on everything but the tests. What was clean stays clean until the file, a header or the rules change.
lint_tidy() {
  # Configured once more: where sources are merged, the list of compilers' commands does not name them.
  local list=build/lint/compile_commands.json
  mkdir -p build/lint
  configure unmerged 2>/dev/null || return 1
  local headers file stamp todo=()
  headers=$(source_files '*.hpp' .clang-tidy | xargs cat | sha256sum | cut -d ' ' -f 1)
  # without what clang does not know
  sed -E 's/ [^ ]*-mtune-ctrl=[^ ]*//' build/unmerged/compile_commands.json >"$list"
  for file in $(source_files '*.cpp' | grep -v '^tests/'); do
    if ! grep -qF "/$file\"" "$list"; then continue; fi
    stamp=build/lint/$( (echo "$headers $file" && cat "$file") | sha256sum | cut -d ' ' -f 1)
    if ! [ -e "$stamp" ]; then todo+=("$file" "$stamp"); fi
  done
  if [ ${#todo[@]} -eq 0 ]; then return 0; fi
  printf '%s\n' "${todo[@]}" | xargs -P "$(jobs_that_fit)" -n 2 bash -c '
    output=$(clang-tidy-16 --quiet -p build/lint "$1" 2>&1) && touch "$2" && exit 0
    grep -vE "warnings? generated|^Suppressed|^Use -header-filter" <<<"$output"
    exit 1' tidy
}

# run_lint [--quick]: without clang-tidy, which reads every header anew for every file and takes minutes
run_lint() {
  need_packages bench build lint
  local check bad=0 checks=(layout includes rooms intrinsics page_size clock lengths comments shell)
  case ${1:-} in
    '') checks+=(tidy) ;;
    --quick) ;;
    *) die "lint: there is no option '$1'; expected --quick" ;;
  esac
  for check in "${checks[@]}"; do
    say "lint: ${check//_/ }"
    if ! "lint_$check" >&2; then
      say "lint: ${check//_/ }: not ok, see above"
      bad=1
    fi
  done
  return $bad
}

run_format() {
  need_packages lint
  code_files | xargs -r clang-format-16 -i
  python3 cmake/lint/rooms.py draw
  judge_comments lower
}

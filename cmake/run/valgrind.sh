# The unit tests (label portable: they need nothing but a CPU) under valgrind, which sees reads of what nobody has written.
# Left out is what valgrind has no address space, and no pidfd, for: processes that map each other's memory.
run_valgrind() {
  need_packages bench build test
  configure release
  compile release portable_tests
  local program status=0
  local -a programs
  mapfile -t programs < <(ctest --test-dir build/release -L '^portable$' --show-only=json-v1 |
    jq -r '.tests[].command[0]' | sort -u)
  [ ${#programs[@]} -gt 0 ] || die "valgrind: no test has the label portable"
  for program in "${programs[@]}"; do
    say "valgrind: $(basename "$program")"
    valgrind --quiet --error-exitcode=99 "$program" --gtest_filter='-HostPeers.*' --gtest_brief=1 "$@" >&2 || status=1
  done
  return $status
}

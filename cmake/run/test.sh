# All that must hold, in order of how soon it tells something: release with every test, the sanitizers, lint.

# Rows of results (see results.awk) and of times, gathered over the steps.
test_rows=
test_times=

step_row() { printf '%s\t%s\t\t%s\n' "$1" "$2" "${3:-}" >>"$test_rows"; }

# timed NAME COMMAND..: runs a step, notes its seconds, passes its exit code on
timed() {
  local name=$1 start=$SECONDS status=0
  shift
  "$@" || status=$?
  printf '%8d  step   %s\n' $((SECONDS - start)) "$name" >>"$test_times"
  return $status
}

# build_step PRESET [TARGET..]: a build that ends with an error is one failed test
build_step() {
  if configure "$1" && compile "$@"; then return 0; fi
  step_row failed "build of $1" "see above"
  return 1
}

# ctest_step PRESET [ctest options]
ctest_step() {
  local preset=$1 build=build/$1 prefix=()
  shift
  rm -rf "$build/results" "$build/ctest.xml"
  # Some kernels place mappings where the thread sanitizer cannot use them, unless randomization is off.
  if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then prefix=(setarch -R); fi
  say "testing $preset"
  # Tests often wait for a deadline or another process, so one more than there are cores runs at a time.
  "${prefix[@]}" ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(($(nproc) + 1))" \
    --output-junit "$PWD/$build/ctest.xml" "$@" >&2 || true
  if ! [ -s "$build/ctest.xml" ]; then
    step_row failed "tests of $preset" "ctest wrote no report"
    return
  fi
  awk -v results="$build/results" -f cmake/run/results.awk "$build/ctest.xml" | sed "s/\t/\t$preset /" >>"$test_rows"
  sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\).*/\2 \1/p' "$build/ctest.xml" |
    awk -v preset="$preset" '{ printf "%8.1f  test   %s %s\n", $1, preset, $2 }' >>"$test_times"
}

times_of_build() {
  if [ -e "build/$1/.ninja_log" ]; then
    awk -f cmake/run/times.awk "build/$1/.ninja_log" | sed "s/  build  /  build  $1 /" >>"$test_times"
  fi
}

# check_transports_ran LIST: every transport in the file LIST is in this build, so the conformance suite must have run on
# it: skipped as unavailable is not enough, and neither is one way of making its ranks where others were skipped as a
# whole. Cases are named TRANSPORT/Conformance.CASE/RANKS.
check_transports_ran() {
  if ! [ -s "$1" ]; then
    step_row failed transports "there is no $1, which names those that must be here"
    return
  fi
  awk -F '\t' '
    NR == FNR { expected[++count] = $1; next }
    $3 !~ /^[a-z0-9_]+\/Conformance\./ { next }
    {
      transport = suite = $3
      sub(/\/.*/, "", transport)
      sub(/Conformance\..*\//, "", suite)
      if ($1 != "skipped") { ran[transport] = 1; delete skipped[suite]; tried[suite] = 1 }
      else if (!(suite in tried)) skipped[suite] = $4
      of[suite] = transport
    }
    END {
      for (i = 1; i <= count; ++i) {
        why = ""
        for (suite in skipped) {
          if (of[suite] != expected[i]) continue
          why = ": " skipped[suite]
          if (expected[i] in ran)
            printf "failed\ttransport %s\t\tall cases of the conformance suite were skipped%s\n", suite, why
        }
        if (!(expected[i] in ran))
          printf "failed\ttransport %s\t\tno case of the conformance suite ran, but it must be here%s\n", expected[i], why
      }
    }' "$1" "$test_rows" >"$test_rows.transports"
  cat "$test_rows.transports" >>"$test_rows"
}

# Prints a line for each reason for which cases of a program were skipped, then a line for each failure, then the counts:
# where only the end of the output is kept, the failures are in it.
report() {
  local passed failed skipped
  passed=$(grep -c '^passed' "$test_rows" || true)
  failed=$(grep -c '^failed' "$test_rows" || true)
  skipped=$(grep -c '^skipped' "$test_rows" || true)
  sort -u "$test_rows" | awk -F '\t' '
    $1 != "skipped" { next }
    { sub(/.*\/tests\//, "tests/", $4) }
    !(($2, $4) in count) { program[++reasons] = $2; why[reasons] = $4; first[reasons] = $3 }
    { ++count[$2, $4] }
    END {
      for (i = 1; i <= reasons; ++i) {
        others = count[program[i], why[i]] - 1
        printf "skipped: %s%s%s%s\n", program[i], first[i] == "" ? "" : " " first[i],
          others ? " and " others " more" : "", why[i] == "" ? "" : ": " why[i]
      }
    }'
  awk -F '\t' '$1 == "failed" { printf "failed: %s%s%s\n", $2, $3 == "" ? "" : " " $3, $4 == "" ? "" : ": " $4 }' \
    "$test_rows" | sort -u
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}

# What takes too long for every change: every file compiled alone, then all tests of that build, with whole products where
# run_test takes a part, and PyTorch on more ranks.
run_exhaustive() {
  local status=0
  need_packages bench build test sanitize package
  mapfile -t files < <(source_files '*.cpp' '*.hpp')
  say "compiling ${#files[@]} files alone"
  compile_alone "${files[@]}"
  configure unmerged
  compile unmerged all exhaustive_tests
  ctest --test-dir build/unmerged -C exhaustive --output-on-failure --no-tests=error "$@" || status=1
  say "random calls from Python with the address sanitizer"
  make_python_environment
  configure dev
  compile dev sinew_python
  ctest --test-dir build/dev -C exhaustive -R '^python_fuzz$' --output-on-failure --no-tests=error || status=1
  test_rows=$PWD/build/exhaustive_rows.tsv
  : >"$test_rows"
  if make_torch_environment && install_wheel; then
    if ! ./run package --torch "$(torch_site)"; then step_row failed "the package as pip builds it" "see above"; fi
    torch_exhaustive_steps
  else
    step_row failed "the wheel in an environment with torch" "see above"
  fi
  report || status=1
  return $status
}

# Compiles public headers and changed files alone. ./run exhaustive does so for all files.
alone_step() {
  local files
  mapfile -t files < <({ public_headers && changed_files; } | sort -u)
  say "compiling ${#files[@]} files alone: public headers, and what has changed"
  if compile_alone "${files[@]}" >&2; then
    step_row passed "public headers and changed files compile alone"
  else
    step_row failed "public headers and changed files compile alone" "see above"
  fi
}

run_test() {
  local times=false preset wheel
  case ${1:-} in
    '') ;;
    --times) times=true ;;
    *) die "test: there is no option '$1'; expected --times" ;;
  esac
  need_packages bench build test sanitize lint package packages docs
  mkdir -p build
  make_python_environment
  make_engine_environment kubernetes || say "no schemas of Kubernetes jobs: the packages above cannot be installed"
  make_environment build/site docs || say "no documentation site: the packages above cannot be installed"
  test_rows=$PWD/build/test_rows.tsv
  test_times=$PWD/build/test_times.txt
  : >"$test_rows"
  : >"$test_times"

  if timed "build release" build_step release; then
    timed "test release" ctest_step release -LE '^exhaustive$'
  fi
  export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
  for preset in dev tsan; do
    if timed "build $preset" build_step "$preset" sanitize_tests; then
      timed "test $preset" ctest_step "$preset" -L '^sanitize$'
    fi
  done
  if timed "install torch" make_torch_environment && timed "install wheel" install_wheel; then
    timed "test torch" torch_steps 2
    timed "test torch README" torch_readme_step
    timed "test torch kills" kills_step 6
  else
    step_row failed "the wheel in an environment with torch" "see above"
  fi
  wheel=(build/dist/*.whl)
  if [ -e "${wheel[0]}" ]; then wheel=(--wheel "${wheel[0]}"); else wheel=(); fi
  timed packages packages_step "${wheel[@]}"
  timed "files alone" alone_step
  if timed lint run_lint --quick; then step_row passed lint; else step_row failed lint "see above"; fi
  check_transports_ran build/release/expected_transports.txt
  say "all checks are over"

  if $times; then
    for preset in release dev tsan; do times_of_build "$preset"; done
    echo "seconds (build: sums over compilers that ran side by side):"
    sort -rn "$test_times" | awk 'NR <= 60' # not head: sort would be killed by SIGPIPE, and the job with it
  fi
  report
}

# The first minutes: this machine in numbers. What measures is built first; what explains is built after that.

# Passes lines on, and tells when the first line of figures has come.
tell_first_figures() {
  local line told=false
  while IFS= read -r line; do
    printf '%s\n' "$line"
    if ! $told && [[ $line =~ ^(\[[0-9]+\] )?[[:space:]]*([0-9]|\{) ]]; then
      told=true
      say "first measured line"
    fi
  done
}

run_bench() {
  need_packages bench
  configure release -DSINEW_BUILD_TESTS=OFF -DSINEW_BUILD_EXAMPLES=OFF
  compile release sinew-run sinew-bench
  local bin=build/release/bin transport
  for transport in shm tcp; do
    say "measuring all-reduces over $transport"
    "$bin/sinew-run" -n 2 "$bin/sinew-bench" all_reduce -b 8 -e 64MiB -f 2 --transport "$transport" "$@" |
      tell_first_figures
  done
  compile release sinew-info
  say "what is in this machine, what can talk to what, and what would run"
  "$bin/sinew-info" topology
  "$bin/sinew-info" transports
  "$bin/sinew-info" plan all_reduce 64MiB
  say "done; ./run build builds the rest: the modules ucx, ofi, nccl and cuda_ipc, the strategies, the examples"
}

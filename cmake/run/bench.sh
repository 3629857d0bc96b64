# The first minute: this machine in numbers.

run_bench() {
  need_packages build
  configure release
  compile release sinew-info sinew-run sinew-bench
  local bin=build/release/bin transport
  "$bin/sinew-info" topology
  "$bin/sinew-info" transports
  "$bin/sinew-info" plan all_reduce 64MiB
  for transport in shm tcp; do
    "$bin/sinew-run" -n 2 "$bin/sinew-bench" all_reduce -b 8 -e 64MiB -f 2 --transport "$transport" "$@"
  done
}

# ./run engines: the same checked program under each engine that can be installed from registries, on hosts that are namespaces of this
# machine (tests/engines/engines.sh). Prints a table: engine, version, ranks, hosts, verdict.

# The packages of the group that an engine has in cmake/python_packages.txt.
make_engine_environment() { make_environment "build/engines/$1" "$1"; }

engine_groups=(slurm mpi torchrun ray)

run_engines() {
  local name table=build/engines/table.tsv
  local -a groups=("$@")
  for name in "$@"; do
    [[ " ${engine_groups[*]} " == *" $name "* ]] || die "engines: '$name': expected some of ${engine_groups[*]}"
  done
  if [ $# -eq 0 ]; then groups=("${engine_groups[@]}"); fi
  need_root engines
  need_packages bench build test package
  if [[ " ${groups[*]} " == *" mpi "* ]]; then
    for name in impi openmpi mpich; do install_peer "$name"; done
  fi
  if [[ " ${groups[*]} " == *" torchrun "* || " ${groups[*]} " == *" ray "* ]]; then
    make_torch_environment
    install_wheel
  fi
  if [[ " ${groups[*]} " == *" ray "* ]]; then
    make_engine_environment ray
    torch_site >"$(echo build/engines/ray/lib/python3*/site-packages)/torch.pth" # Ray uses the torch and the sinew of build/torch
  fi
  configure release
  compile release roll_call
  mkdir -p build/engines
  say "running each engine"
  tests/engines/engines.sh build/release/bin "$table" "${groups[@]}" >&2
  printf 'engine\tversion\tranks\thosts\tverdict\n' | cat - "$table" | column -t -s $'\t'
  awk -F '\t' '$5 != "works" { bad = 1 } END { exit bad }' "$table"
}

# ./run peers: sinew beside the strongest MPIs of the Python registry and oneCCL, in the same processes on the same buffers. Each
# is installed into a folder of its own below build/peers. sinew-bench compiles its module for it (--peer PREFIX). The case
# "inference" is measured beside DeepSpeed's all-reduce for CPUs.

peer_names=(impi openmpi mpich oneccl)

# peer_offers NAME COLLECTIVE: oneCCL for CPUs has some collectives, and no messages.
peer_offers() {
  case $1 in
    oneccl) [[ " all_reduce all_gather reduce_scatter all_to_all broadcast reduce " == *" $2 "* ]] ;;
  esac
}

# peer_folder NAME: the prefix of an installed MPI
peer_folder() { echo "$PWD/build/peers/$1"; }

# install_peer NAME: impi-rt names a libfabric that the registry does not have. Between processes of a host it needs none.
install_peer() {
  local folder packages
  folder=$(peer_folder "$1")
  if [ "$1" = deepspeed ]; then
    install_deepspeed "$folder"
    return
  fi
  if [ -e "$folder/installed" ]; then return; fi
  say "installing $1 into build/peers/$1"
  python3 -m venv "$folder"
  mapfile -t packages < <(python_packages "peer_$1")
  "$folder/bin/python" -m pip install --quiet --no-deps "${packages[@]}" >&2
  touch "$folder/installed"
}

# install_deepspeed FOLDER: unpacks the source package. Only csrc/cpu/comm/shm.cpp and its headers are compiled.
install_deepspeed() {
  local package
  if [ -e "$1/csrc/cpu/comm/shm.cpp" ]; then return; fi
  say "unpacking deepspeed into $1"
  package=$(python_packages peer_deepspeed)
  mkdir -p "$1"
  python3 -m venv "$1/environment"
  DS_BUILD_OPS=0 "$1/environment/bin/python" -m pip download --quiet --no-deps --no-binary :all: --dest "$1" "$package" >&2
  tar -xf "$1"/deepspeed-*.tar.gz -C "$1" --strip-components 1
}

# peer_environment NAME: what its launcher needs, as VARIABLE=VALUE, one a line
peer_environment() {
  case $1 in
    openmpi) printf '%s\n' OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe ;;
    impi | oneccl) echo "I_MPI_ROOT=$(peer_folder "$1")" ;;
  esac
}

# with_peer NAME RANKS COMMAND..: starts the ranks by the peer's own launcher, with what it needs on one host
with_peer() {
  local name=$1 ranks=$2
  local -a settings
  shift 2
  if [ "$name" = deepspeed ]; then
    build/release/bin/sinew-run -n "$ranks" "$@"
    return
  fi
  mapfile -t settings < <(peer_environment "$name")
  I_MPI_FABRICS=shm env "${settings[@]}" "$(peer_folder "$name")/bin/mpiexec" -n "$ranks" "$@"
}

# peer_table FOLDER PEER..: for each size the median time of sinew, and the median of each peer's time divided by sinew's in the same
# lines. * marks ratios of which most lines were noisy. The last line has the geometric means.
peer_table() {
  local folder=$1 name
  shift
  for name in "$@"; do
    jq -c --arg peer "$name" '{peer: $peer, bytes, speedup, noisy, ours: .time_us}' "$folder/$name" 2>/dev/null || true
  done | jq -rs --arg names "$*" '
    def median: sort | .[length / 2 | floor];
    ($names | split(" ")) as $names
    | group_by(.bytes)
    | map({bytes: .[0].bytes, ours: (map(.ours | numbers) | if length > 0 then median else null end),
           of: (group_by(.peer) | map({key: .[0].peer,
             value: {ratio: (map(.speedup) | median), noisy: ((map(select(.noisy)) | length) * 2 > length)}}) | from_entries)})
    | . as $rows
    | (["bytes", "sinew us"] + $names),
      (.[] | . as $row | [$row.bytes, ($row.ours // "" | tostring)] + [$names[] as $n | $row.of[$n] // null
        | if . == null then "" else "\(.ratio * 100 | round / 100)\(if .noisy then "*" else "" end)" end]),
      ["mean", ""] + [$names[] as $n | [$rows[].of[$n].ratio | numbers] | if length == 0 then "" else
        (map(log) | add / length | exp * 100 | round / 100 | tostring) end]
    | @tsv'
}

# What "inference" stands for: the sums of layers under tensor parallelism, each in buffers that no call has used before.
inference_case=(all_reduce -d bf16 --in-place)
inference_sizes=(8KiB 1MiB)

run_peers() {
  local ranks=2 runs=3 last=64MiB install_only=false name run collective folder
  local -a collectives=() peers what
  while [ $# -gt 0 ]; do
    case $1 in
      --install) install_only=true ;;
      --ranks | --runs | --to)
        [ $# -gt 1 ] || die "peers: $1 without a value; expected a number"
        case $1 in --ranks) ranks=$2 ;; --runs) runs=$2 ;; --to) last=$2 ;; esac
        shift
        ;;
      -*) die "peers: there is no option '$1'; expected --install, --ranks N, --runs N, --to BYTES" ;;
      *) collectives+=("$1") ;;
    esac
    shift
  done
  if [ ${#collectives[@]} -eq 0 ]; then
    collectives=(all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter latency bandwidth inference)
  fi
  need_packages bench build
  for name in "${peer_names[@]}" deepspeed; do install_peer "$name"; done
  if $install_only; then return; fi
  configure release -DSINEW_BUILD_TESTS=OFF -DSINEW_BUILD_EXAMPLES=OFF
  compile release sinew-bench sinew-run
  folder=build/peers/lines
  rm -rf "$folder"
  for collective in "${collectives[@]}"; do
    mkdir -p "$folder/$collective"
    peers=("${peer_names[@]}")
    what=("$collective" -b 8 -e "$last")
    if [ "$collective" = inference ]; then
      peers=(deepspeed)
      what=("${inference_case[@]}" -b "${inference_sizes[0]}" -e "${inference_sizes[1]}")
    fi
    for ((run = 1; run <= runs; ++run)); do
      for name in "${peers[@]}"; do
        peer_offers "$name" "$collective" || continue
        say "peers: $collective beside $name, run $run of $runs"
        with_peer "$name" "$ranks" build/release/bin/sinew-bench "${what[@]}" -f 2 --transport shm \
          --peer "$(peer_folder "$name")" --json "$folder/line" >"$folder/log" 2>&1 ||
          { cat "$folder/log" >&2; die "peers: $collective beside $name failed, see above"; }
        cat "$folder/line" >>"$folder/$collective/$name"
      done
    done
    printf '\n%s on %s ranks: time of the peer / time of sinew, median of %s runs (* mostly noisy)\n' "$collective" "$ranks" "$runs"
    peer_table "$folder/$collective" "${peers[@]}" | column -t -s $'\t'
  done
}

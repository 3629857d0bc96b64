# Collectives of 8 B between hosts, which are network namespaces joined by links of 2 Gbit/s: beside half a ping-pong with one rank on each
# of two hosts, else beside Open MPI and MPICH over TCP, in the same processes on the same buffers. SHORT=1: a few of the rows, one run each.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/hosts.sh
need_hosts hosts_small "short collectives between hosts"

runs=5
if [ -n "${SHORT:-}" ]; then runs=1; fi

# ping_pong_row: an exchange of two ranks has at least one way
ping_pong_row() {
  local found
  (
    source tests/hosts/namespaces.sh
    make_hosts 2 1 2gbit
    for ((run = 0; run < runs; ++run)); do on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/between_hosts" | sed 's/^\[[0-9]*\] //'; done >"$scratch/lines"
  )
  found=$(jq -s 'def mid(f): map(f) | sort | .[length / 2 | floor];
    {ways: mid(.all_reduce_us / .one_way_us), us: mid(.all_reduce_us), way: mid(.one_way_us)}' "$scratch/lines")
  row hosts_8b_1_1 "all_reduce of 8 B, 2 hosts with 1 rank each: its time, in halves of a ping-pong between them, median of $runs runs" "<= 1.3" \
    "$(jq -r '"\(.ways * 100 | round / 100) (\(.us * 10 | round / 10) us, \(.way * 10 | round / 10) us)"' <<<"$found")" "$(jq '.ways <= 1.3' <<<"$found")"
}

# beside MPI RANKS COLLECTIVE..: the lines of all runs, one file; the hosts are there
beside() {
  local mpi=$1 ranks=$2 collective run
  shift 2
  for collective in "$@"; do
    for ((run = 0; run < runs; ++run)); do
      # The namespaces share a memory and a kernel, which MPIs would find out: between hosts they are to use TCP, as sinew does.
      OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=link0 OMPI_MCA_hwloc_base_binding_policy=none UCX_TLS=tcp,self \
        on_all "$mpi" "$ranks" "$PWD/$bin/sinew-bench" "$collective" -b 8 -e 8 --peer mpi --json "$scratch/line" >&2
      jq -c --arg mpi "${mpi#*.}" --arg asked "$collective" '. + {$mpi, $asked}' "$scratch/line"
      rm "$scratch/line"
    done
  done
}

# peers_row RANKS COLLECTIVE..: MPI's time / ours, of the faster MPI of each collective; the least of the collectives counts
peers_row() {
  local ranks=$1 mpi hosts found noisy
  IFS=, read -r -a hosts <<<"$ranks"
  (
    source tests/hosts/namespaces.sh
    make_hosts ${#hosts[@]} 1 2gbit
    for mpi in mpirun.openmpi mpirun.mpich; do beside $mpi "$@"; done
  ) >"$scratch/lines"
  noisy=$(spoilt "$scratch/lines")
  found=$(jq -s 'def mid(f): map(f) | sort | .[length / 2 | floor];
    group_by([.asked, .mpi]) | map({collective: .[0].asked, mpi: .[0].mpi, speedup: mid(.speedup), us: mid(.time_us), algorithm: .[0].algorithm}) |
    group_by(.collective) | map(min_by(.speedup))' "$scratch/lines")
  row "hosts_8b_${ranks//,/_}" "time of the faster of Open MPI and MPICH / ours, 8 B, $ranks ranks on hosts joined by 2 Gbit/s, the least of ${*:2}; medians of $runs runs" \
    ">= 1" "$(with_note "$(jq -r 'map("\(.collective) \(.speedup * 100 | round / 100) (\(.us | round) us, \(.mpi), \(.algorithm))") | join("; ")' <<<"$found")" "$noisy")" \
    "$(jq --arg noisy "$noisy" '$noisy == "" and all(.speedup >= 1)' <<<"$found")"
}

ping_pong_row
if [ -n "${SHORT:-}" ]; then
  peers_row 2,2 all_reduce
  peers_row 1,1,1 all_reduce
  exit 0
fi
several="all_reduce all_gather broadcast all_to_all barrier"
# shellcheck disable=SC2086
{
  for ranks in 2,2 3,3 4,4 3,1 1,1,1 2,2,2; do peers_row $ranks $several; done
}
for hosts in 3 5; do
  for ranks in 3 4; do peers_row "$(each_host $hosts $ranks)" all_reduce; done
done
peers_row 1,1,1,1,1 all_reduce all_to_all
peers_row 2,2,2,2,2 all_reduce

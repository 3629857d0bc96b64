# Collectives and messages where the kernel refuses all ranks to read and to write each other's memory (process_vm_readv and
# process_vm_writev), as with ptrace_scope=1 or a container's seccomp: beside the peers, which are refused it, too.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh
sandbox=("$bin/refusing" EPERM process_vm)
# The costs of the machine are other ones in there.
export SINEW_CACHE=$scratch/costs.json

for collective in all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter latency bandwidth; do
  strongest_rows "refused_$collective" 0.97 - "$collective"
done

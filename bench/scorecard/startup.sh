# A world of 64 processes: from the launcher's start to the end of the first all-reduce, and what each process keeps.
source bench/scorecard/lib/row.sh

begin=$(date +%s%N)
sinew_run -n 64 "$bin/startup" >"$scratch/ready"
seconds=$(jq -s "(map(.ready_ns) | max) - $begin | . / 1e7 | round / 100" "$scratch/ready")
ranks=$(jq -s length "$scratch/ready")
mib=$(jq -s 'map(.kept_bytes) | max / 1048576 * 10 | round / 10' "$scratch/ready")
row startup_time "64 processes on $(nproc) cores: until each has done its first all-reduce" "64 within 10 s" \
  "$ranks in $seconds s" "$(jq -n "$ranks == 64 and $seconds <= 10")"
row startup_memory "64 processes: what the largest keeps (private pages and its share of the job's memory files)" \
  "< 40 MiB" "$mib MiB" "$(jq -n "$ranks == 64 and $mib < 40")"

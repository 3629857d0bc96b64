# 512 processes on this host: from the launcher's start to the end of the first all-reduce of each.
source bench/scorecard/lib/row.sh

ulimit -n 1024 # hard and soft
begin=$(date +%s%N)
status=0
sinew_run -n 512 "$bin/startup" >"$scratch/ready" 2>"$scratch/why" || status=$?
ranks=$(jq -s length "$scratch/ready")
seconds=$(jq -s "if length == 0 then null else (map(.ready_ns) | max) - $begin | . / 1e7 | round / 100 end" "$scratch/ready")
row many_processes "512 processes on $(nproc) cores, ulimit -n 1024: until each has done its first all-reduce" \
  "512 within 20 s" "$(with_note "$ranks in $seconds s" "$(head -c 300 "$scratch/why" | tr '\n' ' ')")" \
  "$(jq -n "$status == 0 and $ranks == 512 and $seconds <= 20")"

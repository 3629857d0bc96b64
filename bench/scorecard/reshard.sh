# Weights of four ranks of one job go to three ranks of another one, on two hosts of network namespaces. Median of three runs.
source bench/scorecard/lib/row.sh

if ! unshare -n true 2>/dev/null; then
  row reshard_link "64 MB from 4 to 3 ranks as two jobs: share of the link's rate" ">= 0.8" "not measured: no network namespaces here" false
  exit 0
fi
for rate in 1 2; do  # Gbit/s
  for _ in 1 2 3; do
    tests/hosts/two_jobs.sh "$PWD/$bin/sinew-run" "$PWD/$bin/reshard_job" "${rate}gbit" 64 | tee /dev/stderr | grep -oE '[0-9.]+ GB/s' | cut -d ' ' -f 1
  done >"$scratch/$rate"
  share=$(jq -s "sort | .[1] / (0.125 * $rate) * 1000 | round / 1000" "$scratch/$rate")
  row "reshard_link_$rate" "64 MB from 4 to 3 ranks as two jobs, link of $rate Gbit/s: share of its rate" ">= 0.8" "$share" "$(jq -n "$share >= 0.8")"
done

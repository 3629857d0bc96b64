# Gathers and scatters of zero3 behind both passes: two hosts joined by 1 Gbit/s, communication 0.7 of computation, a
# third of which is the forward pass; what is gathered ahead is limited.
source bench/scorecard/lib/row.sh

limit_mib=32
if ! unshare -n true 2>/dev/null; then
  row fsdp_overlap "zero3's communication behind its computation" "<= 1.15" "not measured: no network namespaces here" false
  exit 0
fi
source tests/hosts/namespaces.sh
make_hosts 2 1 1gbit
on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/overlap" --row zero3 --mib 256 --ratio 0.7 --forward 0.33 --steps 7 --prefetch $limit_mib |
  sed 's/^\[[0-9]*\] //' >"$scratch/line"
row fsdp_overlap "zero3, 256 MiB of parameters, 2 hosts joined by 1 Gbit/s: a step over the longer of computing and communicating, median of turns" \
  "<= 1.15" \
  "$(jq -r '"\(.over_longer) (compute \(.compute_s) s, communication \(.communication_s), together \(.overlapped_s), one after the other \(.serial_s))"' "$scratch/line")" \
  "$(jq '.over_longer <= 1.15 and .communication_s / .compute_s > 0.5 and .communication_s / .compute_s < 0.9' "$scratch/line")"
row fsdp_prefetch "the same: gathered parameters and gradients that wait to be scattered, at most" "<= $limit_mib MiB" \
  "$(jq -r '.underway_bytes / 1048576 * 100 | round / 100 | "\(.) MiB"' "$scratch/line")" \
  "$(jq ".underway_bytes <= $((limit_mib << 20))" "$scratch/line")"

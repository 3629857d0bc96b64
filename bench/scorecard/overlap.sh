# A step's communication behind its backward pass: two hosts joined by 1 Gbit/s, communication 0.7 of computation.
# Computing alone, communicating alone, both at once, one after the other, all of the same processes.
source bench/scorecard/lib/row.sh

if ! unshare -n true 2>/dev/null; then
  row overlap "a step's communication behind its computation" "<= 1.15" "not measured: no network namespaces here" false
  exit 0
fi
source tests/hosts/namespaces.sh
make_hosts 2 1 1gbit
on_all "$PWD/$bin/sinew-run" 1,1 "$PWD/$bin/overlap" --mib 256 --ratio 0.7 | sed 's/^\[[0-9]*\] //' >"$scratch/line"
row overlap "ddp, 256 MiB of gradients, 2 hosts joined by 1 Gbit/s: a step over the longer of computing and communicating, median of turns" \
  "<= 1.15" \
  "$(jq -r '"\(.over_longer) (compute \(.compute_s) s, communication \(.communication_s), together \(.overlapped_s), one after the other \(.serial_s))"' "$scratch/line")" \
  "$(jq '.over_longer <= 1.15 and .communication_s / .compute_s > 0.5 and .communication_s / .compute_s < 0.9' "$scratch/line")"

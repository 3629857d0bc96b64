# Ten minutes of random calls over each transport in turn; `./run soak --minutes 30` is the whole.
source bench/scorecard/lib/row.sh

./run soak --minutes 10 >"$scratch/out" 2>"$scratch/err" || true
row soak "random collectives, messages, splits, aborts and generations over shm, tcp, ucx, ofi and two hosts: wrong elements, most growth of a rank behind the first minute, more descriptors" \
  "0, < 1 MiB, 0" \
  "$(jq -rs '"\(map(.wrong) | add), \(map(.resident_growth_bytes) | max / 1024 | round) KiB, \(map(.descriptors_more) | max) (\(map(.calls) | add) calls, \(map(.minutes) | add | round) minutes, \(length) parts)"' "$scratch/out")" \
  "$(jq -s 'length >= 3 and all(.[]; .ok)' "$scratch/out")"

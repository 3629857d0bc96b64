# Ten minutes of random calls over each transport in turn, and a training with 350 kills; `./run soak --minutes 30` is the whole, with 1050.
source bench/scorecard/lib/row.sh

./run soak --minutes 10 >"$scratch/out" 2>"$scratch/err" || true
row soak "random collectives, messages, splits, aborts and generations over shm, tcp, ucx, ofi and two hosts: wrong elements, most growth of a rank behind the first minute, more descriptors" \
  "0, < 1 MiB, 0" \
  "$(jq -rs '"\(map(.wrong) | add), \(map(.resident_growth_bytes) | max / 1024 | round) KiB, \(map(.descriptors_more) | max) (\(map(.calls) | add) calls, \(map(.minutes) | add | round) minutes, \(length) parts)"' "$scratch/out")" \
  "$(jq -s 'length >= 3 and all(.[]; .ok)' "$scratch/out")"
row soak_kills "a training whose processes are killed: kills; hangs and failures, dead processes that were not named, largest difference of a loss" \
  "350 kills; 0, 0, <= 1e-10" \
  "$(jq -r 'select(.part == "a training") | "\(.kills) kills; \(.hangs + .failures), \(.unreported + .misnamed + .nameless), \(.worst)"' "$scratch/out")" \
  "$(jq -s 'any(.[]; .part == "a training" and .ok)' "$scratch/out")"

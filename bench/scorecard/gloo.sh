# All-reduce on 2 ranks of one host against PyTorch's Gloo: in turns, medians of five. Gloo has the easier task, its
# buffer stays in the cache of the one rank that rewrites it.
source bench/scorecard/lib/row.sh

turns=5
: >"$scratch/theirs" >"$scratch/mine" >"$scratch/lines"
for ((turn = 0; turn < turns; ++turn)); do
  timeout 120 /usr/bin/python3 bench/peer/gloo_all_reduce.py $((20000 + RANDOM % 20000)) 8 16384 >>"$scratch/theirs"
  for bytes in 8 16KiB; do
    sinew_run -n 2 "$bin/sinew-bench" all_reduce -b $bytes -e $bytes --transport shm --json - | grep '^{' >>"$scratch/lines"
  done
done

# against BYTES MUST
against() {
  local theirs mine ratio note
  theirs=$(awk -v bytes="$1" '$1 == bytes { print $2 }' "$scratch/theirs" | jq -s 'sort | .[length / 2 | floor]')
  jq -c "select(.bytes == $1)" "$scratch/lines" >"$scratch/mine"
  mine=$(jq -s 'map(.time_us) | sort | .[length / 2 | floor]' "$scratch/mine")
  note=$(spoilt "$scratch/mine")
  ratio=$(jq -n "$theirs / $mine * 10 | round / 10")
  row "gloo_$1" "all_reduce $1 B, 2 ranks: PyTorch's Gloo / ours" ">= $2" \
    "$(with_note "$ratio: $theirs us / $mine us" "$note")" \
    "$(jq -n "$ratio >= $2 and $([ -z "$note" ] && echo true || echo false)")"
}
against 8 100
against 16384 30

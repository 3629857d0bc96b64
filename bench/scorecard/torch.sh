# PyTorch over the package against Gloo: 2 ranks of one host, in turns in the same processes, medians.
source bench/scorecard/lib/row.sh

./run torch --install
python=build/torch/bin/python
export CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1
"$python" bench/torch/collectives.py --backends gloo,sinew --json "$scratch/calls" >&2
"$python" bench/torch/training.py --backends gloo,sinew --json "$scratch/steps" >&2

# median WHAT BYTES BACKEND: of a call, us
median() {
  jq --arg what "$1" --argjson bytes "$2" --arg backend "$3" \
    '.rows[] | select(.what == $what and .bytes == $bytes and .backend == $backend) | .median_us * 100 | round / 100' "$scratch/calls"
}

# against BYTES MUST
against() {
  local theirs mine ratio
  theirs=$(median sync "$1" gloo)
  mine=$(median sync "$1" sinew)
  ratio=$(jq -n "$theirs / $mine * 10 | round / 10")
  row "torch_all_reduce_$1" "torch.distributed.all_reduce of $1 B, 2 ranks: Gloo / ours" ">= $2" "$ratio: $theirs us / $mine us" \
    "$(jq -n "$ratio >= $2")"
}
against 8 40
against 4096 40
against 262144 10
against 4194304 5
against 67108864 4.2

more=$(jq -n "$(median async 8 sinew) - $(median sync 8 sinew) | . * 100 | round / 100")
row torch_async "async_op=True followed by wait(), 8 B: more than the synchronous call" "<= 1 us" "$more us" "$(jq -n "$more <= 1")"
made=$(median new_group 0 sinew)
row torch_new_group "dist.new_group within a World that there is" "<= 2000 us" "$made us; Gloo $(median new_group 0 gloo) us" \
  "$(jq -n "$made <= 2000")"

# communication KIND WHAT MUST
communication() {
  local ratio theirs mine
  theirs=$(jq --arg kind "$1" '.rows[] | select(.kind == $kind and .backend == "gloo") | .communication_us | sort | .[length / 2 | floor] | round' "$scratch/steps")
  mine=$(jq --arg kind "$1" '.rows[] | select(.kind == $kind and .backend == "sinew") | .communication_us | sort | .[length / 2 | floor] | round' "$scratch/steps")
  ratio=$(jq -n "$theirs / $mine * 100 | round / 100")
  row "torch_$1" "$2, 2 ranks: communication of a step, Gloo / ours" ">= $3" "$ratio: $theirs us / $mine us" "$(jq -n "$ratio >= $3")"
}
communication ddp "DDP with 33.6 MB of gradients" 5
communication fsdp2 "FSDP2 of a small transformer" 3

# What torch adds: a call over sinew, minus one over PyTorch's backend "fake", minus C++'s call; in turns, medians of five.
for _ in 1 2 3 4 5; do
  sinew_run -n 2 "$bin/sinew-bench" all_reduce -b 8 -e 4MiB -f 524288 --in-place --warm-buffers -c 0 --batch 5ms --json - >>"$scratch/cpp"
  "$python" bench/torch/overhead.py --sizes 8,4MiB --rounds 7 --json "$scratch/overhead" >&2
  cat "$scratch/overhead" >>"$scratch/overheads"
done

# of_torch BYTES BACKEND: time of a call, us
of_torch() {
  jq -s --argjson bytes "$1" --arg backend "$2" \
    'map(.rows[] | select(.bytes == $bytes and .backend == $backend) | .median_us) | sort | .[2] * 100 | round / 100' "$scratch/overheads"
}
of_cpp() {
  jq -s --argjson bytes "$1" 'map(select(.bytes == $bytes) | .time_us) | sort | .[2] * 100 | round / 100' "$scratch/cpp"
}
# adds BYTES MUST: what is measured must hold MUST, a condition on $more (us) and $cpp (us)
adds() {
  local sinew fake cpp more
  sinew=$(of_torch "$1" sinew)
  fake=$(of_torch "$1" fake)
  cpp=$(of_cpp "$1")
  more=$(jq -n "$sinew - $fake - $cpp | . * 100 | round / 100")
  row "torch_adds_$1" "torch.distributed.all_reduce of $1 B: more than PyTorch's backend fake and C++'s call together" "$2" \
    "$more us: $sinew us - fake $fake us - C++ $cpp us" "$(jq -n --argjson more "$more" --argjson cpp "$cpp" "$3")"
}
adds 8 "<= 2 us" '$more <= 2'
adds 4194304 "<= 3 % of C++'s call" '$more <= 0.03 * $cpp'

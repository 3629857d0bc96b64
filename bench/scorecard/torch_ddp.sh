# Data parallelism's communication of a step against PyTorch's DistributedDataParallel over Gloo: 2 ranks of one host,
# buckets of 25 MiB, in turns, medians of five.
source bench/scorecard/lib/row.sh

turns=5

# against NAME SHAPES STEPS MUST; must 0: only shown
against() {
  local turn ratio shapes=bench/shapes/$2.txt
  : >"$scratch/theirs" >"$scratch/mine"
  for ((turn = 0; turn < turns; ++turn)); do
    timeout 300 /usr/bin/python3 bench/peer/torch_ddp.py $((20000 + RANDOM % 20000)) "$shapes" "$3" >>"$scratch/theirs"
    sinew_run -n 2 "$bin/gradient_sync" --shapes "$shapes" --steps "$3" >>"$scratch/mine"
  done
  ratio=$(jq -n "$(jq -s 'sort | .[length / 2 | floor]' "$scratch/theirs") / $(jq -s 'sort | .[length / 2 | floor]' "$scratch/mine") * 100 | round / 100")
  row "torch_ddp_$2" "$1: communication of a step, PyTorch DDP with Gloo / ours" "$([ "$4" = 0 ] && echo shown || echo ">= $4")" \
    "$ratio: $(jq -s 'sort | .[length / 2 | floor] | round' "$scratch/theirs") us / $(jq -s 'sort | .[length / 2 | floor] | round' "$scratch/mine") us" \
    "$(jq -n "$ratio >= $4")"
}
against "ddp, GPT-2 124M" gpt2_124m 5 2.5
against "ddp, a GPT of gradients under 256 KiB each" gpt_narrow 21 0
against "ddp, an MLP of gradients under 256 KiB in all" mlp_small 21 20

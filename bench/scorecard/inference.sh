# The sums of layers under tensor parallelism, in inference: all_reduce of bf16, 8 KiB..1 MiB, in buffers that no call has used
# before, one call after the other without a barrier. Beside DeepSpeed's all-reduce for CPUs on one host, and beside algorithms that
# do not know hosts on two. Then the sum fused with the residual and the norm, as PyTorch calls it.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/versus.sh
source bench/scorecard/lib/strongest.sh
peer_names=(deepspeed)
least_bytes=8192 first_power=13 last_power=20

strongest_rows inference 1.0 1.3 "${inference_case[@]}"
strongest_lines inference_4_ranks 4 "${inference_case[@]}"
strongest_row mean inference_4_ranks 2 "${inference_case[*]}, 4 ranks on $(nproc) cores"

# Two hosts of two ranks: the fastest flat algorithm at each size counts, by the median of three runs in turns.
if unshare -n true 2>/dev/null; then
  (
    source tests/hosts/namespaces.sh
    make_hosts 2 1 2gbit
    for _ in 1 2 3; do
      for way in chosen ring recursive_doubling halving_doubling; do
        arguments=()
        if [ "$way" != chosen ]; then arguments=(--algorithm "$way"); fi
        on_all "$PWD/$bin/sinew-run" 2,2 "$PWD/$bin/sinew-bench" "${inference_case[@]}" -b 8KiB -e 1MiB -f 2 -n 20 "${arguments[@]}" \
          --json "$scratch/line" >&2
        jq -c --arg way "$way" '{$way, bytes, time_us, wrong}' "$scratch/line"
      done
    done
  ) >"$scratch/hosts"
  jq -s 'def mid: sort | .[length / 2 | floor];
    group_by(.bytes) | map({bytes: .[0].bytes, wrong: (map(.wrong) | add),
      chosen: (map(select(.way == "chosen").time_us) | mid),
      flat: (map(select(.way != "chosen")) | group_by(.way) | map(map(.time_us) | mid) | min)}
      | . + {ratio: (.flat / .chosen)})' "$scratch/hosts" >"$scratch/ratios"
  mean=$(jq 'map(.ratio | log) | add / length | exp * 1000 | round / 1000' "$scratch/ratios")
  row inference_two_hosts "all_reduce of bf16, 8 KiB..1 MiB, 2 hosts of 2 ranks joined by 2 Gbit/s: time of the fastest of ring, recursive doubling and halving and doubling / ours, geometric mean" \
    ">= 1.5" "$mean ($(jq -r 'map("\(.bytes) B: \(.ratio * 100 | round / 100)") | join(", ")' "$scratch/ratios"))" \
    "$(jq --argjson mean "$mean" '$mean >= 1.5 and (map(.wrong) | add) == 0' "$scratch/ratios")"
else
  row inference_two_hosts "all_reduce of bf16 on two hosts" "measured" "not measured: no network namespaces here" false
fi

./run torch --install >&2
OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES='' build/torch/bin/python bench/torch/inference.py --json "$scratch/fused" >&2
ratios=$(jq '[.rows | group_by(.bytes)[] | {bytes: .[0].bytes,
  ratio: ((.[] | select(.way == "separate").median_us) / (.[] | select(.way == "fused").median_us))}]' "$scratch/fused")
row torch_fused_norm "torch.ops.sinew.all_reduce_add_rms_norm_ of rows of 4096 bf16, 2 ranks: time of all_reduce, add_ and rms_norm / its time, the least of three sizes" \
  ">= 1.1" "$(jq -r 'map("\(.ratio * 100 | round / 100) at \(.bytes) B") | join(", ")' <<<"$ratios")" \
  "$(jq 'map(.ratio) | min >= 1.1' <<<"$ratios")"

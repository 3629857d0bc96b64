# Tensors that compute: results and bytes beside one rank and the textbook, and a perceptron trained with them by hand.
source bench/scorecard/lib/row.sh

passed=true
for program in test_distributed_tensor test_distributed_functions; do
  "$bin/$program" --gtest_filter='*.Equal*OnOneRank_ForAllPlacements' >"$scratch/out" 2>&1 || passed=false
done
row distributed_tensor "products, functions of elements, reductions, layer norm, permutations, f64, placements on 2, 3, 4, 2 x 2 ranks (all, or up to 100 drawn of a shape): differ from one rank by 1e-12 at most, softmax of numbers near 700 by 1e-11" \
  "passes" "$passed" "$passed"

passed=true
"$bin/test_distributed_tensor" --gtest_filter='OperationTraffic.*' >"$scratch/out" 2>&1 || passed=false
row distributed_tensor_bytes "a column-parallel and a row-parallel product on 4 ranks send the bytes of one all_reduce; every product sends what its plan says" \
  "passes" "$passed" "$passed"

same=0
for ranks in 1 2 3 4 8; do
  "$bin/sinew-run" -n "$ranks" "$bin/distributed_tensor_example" >"$scratch/out" 2>&1 && same=$((same + 1))
done
row distributed_tensor_training "a perceptron trained by hand under tensor parallelism on 1, 2, 3, 4, 8 ranks: losses of 100 steps differ from one rank by 1e-12 at most" \
  "5 of 5" "$same of 5" "$([ "$same" = 5 ] && echo true || echo false)"

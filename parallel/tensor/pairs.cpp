#include <fmt/format.h>

#include <sinew/parallel/tensor/pairs.hpp>

namespace sinew::parallel {
namespace {

TensorSpec gradient_of(TensorSpec tensor) {
  tensor.name = "gradient of " + tensor.name;
  return tensor;
}

}  // namespace

Pair copy_pair() { return {"copy", Replicate{}, Replicate{}, Partial{}, Replicate{}}; }
Pair reduce_pair() { return {"reduce", Partial{}, Replicate{}, Replicate{}, Replicate{}}; }
Pair split_pair(const Shard& shard) { return {"split", Replicate{}, shard, shard, Replicate{}}; }
Pair gather_pair(const Shard& shard) { return {"gather", shard, Replicate{}, Replicate{}, shard}; }
Pair gather_for_parts_pair(const Shard& shard) { return {"gather_for_parts", shard, Replicate{}, Partial{}, shard}; }
Pair reduce_scatter_pair(const Shard& shard) { return {"reduce_scatter", Partial{}, shard, shard, Replicate{}}; }
Pair transpose_pair(const Shard& from, const Shard& to) { return {"transpose", from, to, to, from}; }

PairExchange::PairExchange(CallGroup group, const std::string& axis, const TensorSpec& tensor, const Pair& pair,
                           const ComputeDevice& device)
    : forward_(group, std::string(pair.name), axis, tensor, pair.value_from, pair.value_to, device),
      backward_(group, fmt::format("{} backward", pair.name), axis, gradient_of(tensor), pair.gradient_from,
                pair.gradient_to, device) {}

}  // namespace sinew::parallel

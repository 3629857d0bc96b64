#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

namespace sinew::parallel {

/// The placements of a tensor before and after a layer's exchange: of its values forward, and of their gradients
/// backward. The backward exchange is the transpose of the forward one. If ranks use a value in different ways, its
/// gradient is Partial. That is the difference between the two ways of gathering.
///
///     pair                values                  gradients
///     copy                Replicate               Partial -> Replicate (all_reduce)
///     reduce              Partial -> Replicate    Replicate
///     split(s)            Replicate -> Shard      Shard -> Replicate (all_gather)
///     gather(s)           Shard -> Replicate      Replicate -> Shard: all ranks use the values alike
///     gather_for_parts(s) Shard -> Replicate      Partial -> Shard (reduce_scatter): each rank has its own use
///     reduce_scatter(s)   Partial -> Shard        Shard -> Replicate (all_gather)
///     transpose(a, b)     Shard(a) -> Shard(b)    Shard(b) -> Shard(a) (all_to_all)
///
/// Source: Megatron-LM, tensor_parallel/mappings.py; placements of both ways as in spmd_types.
struct Pair {
  std::string_view name;
  Placement value_from, value_to;
  Placement gradient_from, gradient_to;
};

SINEW_API Pair copy_pair();
SINEW_API Pair reduce_pair();
SINEW_API Pair split_pair(const Shard& shard);
SINEW_API Pair gather_pair(const Shard& shard);
SINEW_API Pair gather_for_parts_pair(const Shard& shard);
SINEW_API Pair reduce_scatter_pair(const Shard& shard);
SINEW_API Pair transpose_pair(const Shard& from, const Shard& to);

/// The two exchanges of a pair, for one tensor and one group. Errors, thread and lifetime: as Exchange.
class SINEW_API PairExchange {
 public:
  PairExchange(CallGroup group, const std::string& axis, const TensorSpec& tensor, const Pair& pair,
               const ComputeDevice& device = {});

  Exchange& forward() noexcept { return forward_; }
  Exchange& backward() noexcept { return backward_; }

 private:
  Exchange forward_, backward_;
};

}  // namespace sinew::parallel

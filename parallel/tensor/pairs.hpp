#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

namespace sinew::parallel {

/// What a layer does to values on their way forward, and to their gradients on the way back: the one is the transpose
/// of the other. Gradients of what each rank uses in its own way are Partial: that is what makes two ways of gathering.
///
///     pair                values                  gradients
///     copy                Replicate               Partial -> Replicate (all_reduce)
///     reduce              Partial -> Replicate    Replicate
///     split(s)            Replicate -> Shard      Shard -> Replicate (all_gather)
///     gather(s)           Shard -> Replicate      Replicate -> Shard: all ranks go on alike
///     gather_for_parts(s) Shard -> Replicate      Partial -> Shard (reduce_scatter): each goes on in its own way
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

/// A pair for one tensor of one group. Errors, thread and lifetime: as Exchange.
class SINEW_API PairExchange {
 public:
  PairExchange(CallGroup group, const std::string& axis, const TensorSpec& tensor, const Pair& pair);

  Exchange& forward() noexcept { return forward_; }
  Exchange& backward() noexcept { return backward_; }

 private:
  Exchange forward_, backward_;
};

}  // namespace sinew::parallel

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/fused/all_reduce_add_rms_norm.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/numeric/add_rms_norm.hpp>
#include <sinew/core/work.hpp>

namespace sinew {
namespace {

constexpr std::string_view kCall = "all_reduce_add_rms_norm";
/// The most bytes of one all_reduce. A piece and its part of the residual stay in the second-level cache.
constexpr std::size_t kPieceBytes = 256 << 10;
/// The most pieces in flight.
constexpr std::size_t kMostAhead = 4;

void require_host(std::string_view name, ConstBuffer b) {
  if (b.place.kind != MemoryKind::Device) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{}: {} is memory of device {}; expected host memory", kCall, name, b.place.device));
}

void check(ConstBuffer partial, Buffer residual, const RmsNorm& norm, Buffer normed, DType dtype) {
  const std::size_t width = arguments::elements(kCall, "weight", norm.weight, dtype);
  if (!has_add_rms_norm(dtype))
    throw Error(Code::InvalidArgument,
                fmt::format("{}: dtype {}; expected f16, bf16, f32 or f64", kCall, name_of(dtype)));
  if (width == 0)
    throw Error(Code::InvalidArgument, fmt::format("{}: weight has no elements; expected those of a row", kCall));
  if (!(norm.epsilon >= 0) || std::isinf(norm.epsilon))
    throw Error(Code::InvalidArgument,
                fmt::format("{}: epsilon is {}; expected a finite number, 0 or more", kCall, norm.epsilon));
  arguments::require_memory(kCall, "partial", partial);
  if (partial.bytes % norm.weight.bytes != 0)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: partial has {} bytes; expected whole rows of {} bytes, which are the weight's", kCall,
                            partial.bytes, norm.weight.bytes));
  arguments::require_bytes(kCall, "residual", residual, partial.bytes);
  arguments::require_bytes(kCall, "normed", normed, partial.bytes);
  require_host("partial", partial);
  require_host("residual", residual);
  require_host("weight", norm.weight);
  require_host("normed", normed);
  arguments::require_disjoint(kCall, residual, normed, "residual and normed overlap");
  arguments::require_disjoint(kCall, residual, partial, "residual and partial overlap");
  arguments::require_disjoint(kCall, residual, norm.weight, "residual and weight overlap");
  arguments::require_disjoint(kCall, normed, norm.weight, "normed and weight overlap");
  if (normed.data != partial.data)
    arguments::require_disjoint(kCall, partial, normed, "partial and normed overlap without being in place");
}

}  // namespace

void all_reduce_add_rms_norm(Communicator& ranks, ConstBuffer partial, Buffer residual, const RmsNorm& norm,
                             Buffer normed, DType dtype, const CallOptions& options) {
  check(partial, residual, norm, normed, dtype);
  const std::size_t row = norm.weight.bytes;
  const AddRmsNorm shape{
      .dtype = dtype, .width = row / size_of(dtype), .epsilon = norm.epsilon, .weight = norm.weight.data};
  const std::size_t piece = std::max<std::size_t>(kPieceBytes / row, 1) * row;
  const std::size_t pieces =
      std::max<std::size_t>((partial.bytes + piece - 1) / piece, 1);  // one call without elements
  const auto part_of = [&](auto buffer, std::size_t i) {
    return buffer.part(i * piece, std::min(piece, partial.bytes - i * piece));
  };
  std::array<Work, kMostAhead> ahead;
  for (std::size_t i = 0; i < pieces + kMostAhead; ++i) {
    if (i >= kMostAhead && i - kMostAhead < pieces) {
      const std::size_t done = i - kMostAhead;
      ahead[done % kMostAhead].get();
      const Buffer to = part_of(normed, done), sum = part_of(residual, done);
      add_rms_norm(shape, to.bytes / row, to.data, sum.data, sum.data, to.data);
    }
    if (i < pieces)
      ahead[i % kMostAhead] = ranks.all_reduce(part_of(partial, i), part_of(normed, i), dtype, ReduceOp::Sum, options);
  }
}

}  // namespace sinew

#pragma once

#include <cstdint>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// The collective whose chunks these are: a v-form has those of its plain form.
constexpr Collective plain_form(Collective c) noexcept {
  switch (c) {
    case Collective::AllGatherV: return Collective::AllGather;
    case Collective::ReduceScatterV: return Collective::ReduceScatter;
    case Collective::AllToAllV: return Collective::AllToAll;
    case Collective::GatherV: return Collective::Gather;
    case Collective::ScatterV: return Collective::Scatter;
    default: return c;
  }
}

/// Which chunks are the same memory. Out of place every chunk is a cell of its own; in place some In and Out chunks
/// share one:
///   all_reduce, broadcast, reduce, all_to_all: In i is Out i         all_gather, gather: In 0 is Out rank
///   reduce_scatter, scatter: Out 0 is In rank                        barrier: In 0 is Out 0
class SINEW_API Cells {
 public:
  Cells(Collective collective, const Program& program);

  std::uint32_t of(Space space, std::uint32_t chunk) const noexcept {
    if (space == Space::Out) return chunk;
    return space == Space::In ? in_[chunk] : scratch_ + chunk;
  }
  /// Scratch comes last, so that a program under construction may still grow.
  std::uint32_t first_scratch() const noexcept { return scratch_; }
  /// In chunks that are an Out chunk as well: the only ones that a program may write.
  bool shared(std::uint32_t in_chunk) const noexcept { return in_[in_chunk] < outs_; }
  bool same(Slice x, Slice y) const noexcept {
    return x.count == y.count && (x.count == 0 || of(x.space, x.first) == of(y.space, y.first));
  }

 private:
  std::vector<std::uint32_t> in_;
  std::uint32_t outs_ = 0;
  std::uint32_t scratch_ = 0;
};

}  // namespace sinew

#include <sinew/collectives/schedule/cells.hpp>

namespace sinew {
namespace {

/// In chunk first_in + k is Out chunk first_out + k, for k < count.
struct Overlap {
  std::uint32_t first_in = 0;
  std::uint32_t first_out = 0;
  std::uint32_t count = 0;
};

Overlap overlap_of(Collective collective, const Program& p) {
  const auto rank = static_cast<std::uint32_t>(p.rank);
  if (!p.in_place || p.in_class.empty() || p.out_class.empty()) return {};
  switch (plain_form(collective)) {
    case Collective::AllGather:
    case Collective::Gather: return {0, rank, 1};
    case Collective::ReduceScatter:
    case Collective::Scatter: return {rank, 0, 1};
    case Collective::Barrier: return {0, 0, 1};
    default: return {0, 0, static_cast<std::uint32_t>(p.in_class.size())};
  }
}

}  // namespace

Cells::Cells(Collective collective, const Program& program)
    : in_(program.in_class.size()), outs_(static_cast<std::uint32_t>(program.out_class.size())) {
  scratch_ = outs_ + static_cast<std::uint32_t>(in_.size());
  for (std::uint32_t i = 0; i < in_.size(); ++i) in_[i] = outs_ + i;
  const Overlap both = overlap_of(collective, program);
  for (std::uint32_t k = 0; k < both.count; ++k) in_[both.first_in + k] = both.first_out + k;
}

}  // namespace sinew

#include "routers.hpp"

#include <algorithm>

namespace gpt {

Routers::Routers(const Shape& shape) : every_(std::max(shape.experts.every, 1)), rate_(shape.experts.bias_rate) {
  for (int block = 0; block < shape.layers; ++block) {
    if (!shape.has_experts(block)) continue;
    const auto experts = static_cast<std::size_t>(shape.experts.count);
    blocks_.push_back({sinew::parallel::ExpertLoad(shape.experts.count), std::vector<double>(rate_ > 0 ? experts : 0)});
  }
}

std::span<const double> Routers::bias(int block) const { return at(block).bias; }
std::span<double> Routers::bias(int block) { return at(block).bias; }

void Routers::add(const Pass& pass) {
  sum_.auxiliary += pass.auxiliary;
  sum_.z += pass.z;
  sum_.tokens += pass.tokens;
  sum_.dropped += pass.dropped;
}

RouterReport Routers::end_step(sinew::Communicator& all, bool is_skipped) {
  if (blocks_.empty()) return {};
  constexpr std::size_t kSums = 4;
  std::vector<double> sums{sum_.auxiliary, sum_.z, static_cast<double>(sum_.tokens), static_cast<double>(sum_.dropped)};
  for (Block& block : blocks_) sums.insert(sums.end(), block.load.counts().begin(), block.load.counts().end());
  if (all.size() > 1) all.all_reduce(sums).get();

  const double tokens = std::max(sums[2], 1.0);
  RouterReport report{.auxiliary = sums[0] / tokens,
                      .z = sums[1] / tokens,
                      .tokens = static_cast<std::int64_t>(sums[2]),
                      .dropped = static_cast<std::int64_t>(sums[3])};
  const double* from = sums.data() + kSums;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    std::copy_n(from, block.load.counts().size(), block.load.counts().begin());
    from += block.load.counts().size();
    for (const double count : block.load.counts()) report.routed += static_cast<std::int64_t>(count);
    if (block.load.imbalance() > report.imbalance) {
      report.imbalance = block.load.imbalance();
      report.worst_block = static_cast<int>(b + 1) * every_ - 1;
      report.worst_expert = block.load.busiest();
    }
    if (has_biases() && !is_skipped) sinew::parallel::balance_by_bias(block.load, rate_, block.bias);
    block.load.clear();
  }
  const auto experts = static_cast<double>(blocks_.front().load.counts().size());
  if (report.routed > 0)
    report.most = experts * static_cast<double>(report.tokens) / static_cast<double>(report.routed);
  sum_ = {};
  return report;
}

}  // namespace gpt

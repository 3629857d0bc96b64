#include <algorithm>

#include <sinew/parallel/expert/router_states.hpp>

namespace sinew::parallel {

RouterStates::RouterStates(int layers, std::int64_t experts, double rate) : rate_(rate) {
  const auto biases = static_cast<std::size_t>(rate > 0 ? experts : 0);
  for (int layer = 0; layer < layers; ++layer) layers_.push_back({ExpertLoad(experts), std::vector<double>(biases)});
}

void RouterStates::add(const Pass& pass) {
  sum_.auxiliary += pass.auxiliary;
  sum_.z += pass.z;
  sum_.tokens += pass.tokens;
  sum_.dropped += pass.dropped;
}

RouterReport RouterStates::end_step(Communicator& all, bool is_skipped) {
  if (layers_.empty()) return {};
  constexpr std::size_t kSums = 4;
  std::vector<double> sums{sum_.auxiliary, sum_.z, static_cast<double>(sum_.tokens), static_cast<double>(sum_.dropped)};
  for (Layer& layer : layers_) sums.insert(sums.end(), layer.load.counts().begin(), layer.load.counts().end());
  if (all.size() > 1) all.all_reduce(sums).get();

  const double tokens = std::max(sums[2], 1.0);
  RouterReport report{.auxiliary = sums[0] / tokens,
                      .z = sums[1] / tokens,
                      .tokens = static_cast<std::int64_t>(sums[2]),
                      .dropped = static_cast<std::int64_t>(sums[3])};
  const double* from = sums.data() + kSums;
  for (std::size_t number = 0; number < layers_.size(); ++number) {
    Layer& layer = layers_[number];
    std::copy_n(from, layer.load.counts().size(), layer.load.counts().begin());
    from += layer.load.counts().size();
    for (const double count : layer.load.counts()) report.routed += static_cast<std::int64_t>(count);
    if (layer.load.imbalance() > report.imbalance) {
      report.imbalance = layer.load.imbalance();
      report.worst_layer = static_cast<int>(number);
      report.worst_expert = layer.load.busiest();
    }
    if (has_biases() && !is_skipped) balance_by_bias(layer.load, rate_, layer.bias);
    layer.load.clear();
  }
  const auto experts = static_cast<double>(layers_.front().load.counts().size());
  if (report.routed > 0)
    report.most = experts * static_cast<double>(report.tokens) / static_cast<double>(report.routed);
  sum_ = {};
  return report;
}

}  // namespace sinew::parallel

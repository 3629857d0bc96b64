#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/expert/expert_load.hpp>

namespace sinew::parallel {
namespace {

double mean_of(std::span<const double> counts) {
  return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
}

}  // namespace

double ExpertLoad::imbalance() const noexcept {
  const double mean = mean_of(counts_);
  return mean > 0 ? *std::ranges::max_element(counts_) / mean : 0;
}

std::int64_t ExpertLoad::busiest() const noexcept { return std::ranges::max_element(counts_) - counts_.begin(); }

void balance_by_bias(const ExpertLoad& load, double rate, std::span<double> bias) {
  const std::span<const double> counts = load.counts();
  if (bias.size() != counts.size())
    throw Error(Code::InvalidArgument,
                fmt::format("bias of {} experts, expected {}, those of the load", bias.size(), counts.size()));
  if (!(rate >= 0) || !std::isfinite(rate))
    throw Error(Code::InvalidArgument, fmt::format("rate of biases: {}, expected 0 or more", rate));
  const double mean = mean_of(counts);
  for (std::size_t e = 0; e < bias.size(); ++e) {
    if (counts[e] != mean) bias[e] += counts[e] < mean ? rate : -rate;
  }
}

}  // namespace sinew::parallel

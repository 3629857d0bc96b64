#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/optim/loss_scaler.hpp>

namespace sinew::parallel {
namespace {

/// The inverse of a scale is a factor of gradients, so it must be finite too.
bool is_positive(double x) noexcept { return std::isfinite(x) && x > 0 && std::isfinite(1 / x); }

/// Every reason why a scaler cannot have these options, in words.
std::vector<std::string> faults_in_scaling(const LossScalerOptions& o) {
  std::vector<std::string> wrong;
  const auto unless = [&wrong](bool holds, std::string_view name, double found, std::string_view expected) {
    if (!holds) wrong.push_back(fmt::format("{} {}: expected {}", name, found, expected));
  };
  unless(is_positive(o.initial), "initial", o.initial, "a finite number above 0");
  if (o.is_fixed) return wrong;
  unless(std::isfinite(o.growth) && o.growth > 1, "growth", o.growth, "a finite number above 1");
  unless(o.backoff > 0 && o.backoff < 1, "backoff", o.backoff, "a number above 0 and below 1");
  if (o.growth_interval < 1)
    wrong.push_back(fmt::format("growth_interval {}: expected 1 step or more", o.growth_interval));
  unless(is_positive(o.least), "least", o.least, "a finite number above 0");
  unless(is_positive(o.most), "most", o.most, "a finite number above 0");
  if (!wrong.empty()) return wrong;
  unless(o.initial >= o.least && o.initial <= o.most, "initial", o.initial,
         fmt::format("a number from least {} to most {}", o.least, o.most));
  return wrong;
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options), state_{.scale = options.initial} {
  if (const std::vector<std::string> wrong = faults_in_scaling(options); !wrong.empty())
    throw Error(Code::InvalidArgument, fmt::format("loss scaler: {}", fmt::join(wrong, "; ")));
}

std::optional<double> LossScaler::unscale(double norm) {
  if (norm < 0) throw Error(Code::InvalidArgument, fmt::format("loss scaler: a norm of {}, expected 0 or more", norm));
  const double before = state_.scale;
  const bool is_good = std::isfinite(norm);
  if (is_good) {
    ++state_.good_steps;
    if (!options_.is_fixed && state_.good_steps >= options_.growth_interval) {
      state_.scale = std::min(before * options_.growth, options_.most);
      state_.good_steps = 0;
    }
  } else {
    ++state_.skipped_steps;
    state_.good_steps = 0;
    if (!options_.is_fixed) state_.scale = std::max(before * options_.backoff, options_.least);
  }
  change_ = state_.scale / before;
  return is_good ? std::optional(1 / before) : std::nullopt;
}

void LossScaler::restore(const LossScaleState& state) {
  std::vector<std::string> wrong;
  if (!is_positive(state.scale))
    wrong.push_back(fmt::format("a scale of {}, expected a finite number above 0", state.scale));
  if (state.good_steps < 0) wrong.push_back(fmt::format("{} good steps, expected 0 or more", state.good_steps));
  if (state.skipped_steps < 0)
    wrong.push_back(fmt::format("{} skipped steps, expected 0 or more", state.skipped_steps));
  if (!wrong.empty())
    throw Error(Code::InvalidArgument, fmt::format("loss scaler: a state with {}", fmt::join(wrong, "; ")));
  const double scale = options_.is_fixed ? options_.initial : std::clamp(state.scale, options_.least, options_.most);
  state_ = {scale, state.good_steps, state.skipped_steps};
  change_ = 1;
}

}  // namespace sinew::parallel

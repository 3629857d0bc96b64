#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include <sinew/parallel/expert/router.hpp>

namespace sinew::parallel {

/// log(sum(exp(logits))).
template <class T>
double log_sum_of(std::span<const T> logits) {
  const auto most = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const T logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

inline double sigmoid(double x) noexcept { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// The share of each logit's score in the sum of all scores. The shares are numbers even if every score underflows.
template <class T>
void shares_of(std::span<const T> logits, RouterScore score, std::span<double> shares) {
  // Softmax: what all have in common falls out.
  const auto log_of = [score](double x) {
    if (score == RouterScore::Softmax) return x;
    return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
  };
  double sum = 0;
  const double most = log_of(static_cast<double>(*std::ranges::max_element(logits)));
  for (std::size_t i = 0; i < logits.size(); ++i)
    sum += shares[i] = std::exp(log_of(static_cast<double>(logits[i])) - most);
  for (std::size_t i = 0; i < logits.size(); ++i) shares[i] /= sum;
}

}  // namespace sinew::parallel

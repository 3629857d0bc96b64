#include "stage_store.hpp"

#include <algorithm>

namespace gpt {
namespace {

constexpr std::int32_t kUnit = 0;  // the only one

}  // namespace

StageStore::StageStore(sinew::parallel::DataParallel& data, const RankStages& stages, const ParameterInfo& tokens,
                       const sinew::parallel::Precision& precision)
    : data_(&data) {
  for (const std::int32_t p : stages.parameters) {
    numbers_.resize(static_cast<std::size_t>(p) + 1, -1);
    numbers_.back() = static_cast<std::int32_t>(std::ranges::find(stages.parameters, p) - stages.parameters.begin());
  }
  if (!stages.has_copy) return;
  copy_.resize(static_cast<std::size_t>(tokens.elements()) * size_of(precision.parameter));
  gradient_of_copy_.resize(static_cast<std::size_t>(tokens.elements()) * size_of(precision.gradient));
}

sinew::Buffer StageStore::parameter(int p) {
  if (p == kTokens && has_copy()) return {copy_.data(), copy_.size()};
  return data_->parameter(number(p));
}

sinew::Buffer StageStore::gradient(int p) {
  if (p == kTokens && has_copy()) return {gradient_of_copy_.data(), gradient_of_copy_.size()};
  return data_->gradient(number(p));
}

void StageStore::begin() {
  data_->before_forward(kUnit);
  data_->after_forward(kUnit);
  data_->before_backward(kUnit);
}

void StageStore::end() {
  for (std::int32_t p = 0; p < std::ssize(data_->parameters()); ++p) data_->gradient_ready(p);
  data_->after_backward(kUnit);
}

void StageStore::clear_gradient_of_copy() { std::ranges::fill(gradient_of_copy_, std::byte{}); }

}  // namespace gpt

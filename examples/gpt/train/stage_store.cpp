#include "stage_store.hpp"

#include <algorithm>

namespace gpt {
namespace {

constexpr std::int32_t kUnit = 0;  // the only one

}  // namespace

StageStore::StageStore(sinew::parallel::Job& job, const RankStages& stages, const std::vector<ParameterInfo>& list)
    : data_{&job.data()}, homes_(job, stages.parameters, list), first_(stages.parameters.front()) {
  if (job.has_experts() && !job.experts().parameters().empty()) data_.push_back(&job.experts());
  if (!stages.has_copy) return;
  const auto tokens = static_cast<std::size_t>(list[kTokens].elements());
  copy_.resize(tokens * size_of(job.config().precision.parameter));
  gradient_of_copy_.resize(tokens * size_of(job.config().precision.gradient));
}

sinew::Buffer StageStore::parameter(int p) {
  if (p == kTokens && has_copy()) return {copy_.data(), copy_.size()};
  return homes_.parameter(p);
}

sinew::Buffer StageStore::gradient(int p) {
  if (p == kTokens && has_copy()) return {gradient_of_copy_.data(), gradient_of_copy_.size()};
  return homes_.gradient(p);
}

void StageStore::begin() {
  for (sinew::parallel::DataParallel* data : data_) {
    data->before_forward(kUnit);
    data->after_forward(kUnit);
    data->before_backward(kUnit);
  }
}

void StageStore::end(bool overflows) {
  if (overflows) homes_.make_infinite(first_);
  for (sinew::parallel::DataParallel* data : data_) {
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) data->gradient_ready(p);
    data->after_backward(kUnit);
  }
}

void StageStore::clear_gradient_of_copy() { std::ranges::fill(gradient_of_copy_, std::byte{}); }

}  // namespace gpt

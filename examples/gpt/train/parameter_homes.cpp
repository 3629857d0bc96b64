#include "parameter_homes.hpp"

#include <limits>

#include <sinew/core/float_formats.hpp>

namespace gpt {

ParameterHomes::ParameterHomes(sinew::parallel::Job& job, const std::vector<std::int32_t>& here,
                               const std::vector<ParameterInfo>& list)
    : homes_(list.size()) {
  std::int32_t dense = 0, of_experts = 0;
  for (const std::int32_t p : here) {
    const auto at = static_cast<std::size_t>(p);
    homes_[at] = list[at].of_experts ? Home{&job.experts(), of_experts++} : Home{&job.data(), dense++};
  }
}

void ParameterHomes::make_infinite(int p) {
  const auto [data, number] = home(p);
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  switch (data->parameters()[static_cast<std::size_t>(number)].gradient_dtype()) {
    case sinew::DType::F64: data->gradient<double>(number)[0] = double{kInfinite}; break;
    case sinew::DType::BF16: data->gradient<sinew::BFloat16>(number)[0] = sinew::to_bfloat16(kInfinite); break;
    default: data->gradient<float>(number)[0] = kInfinite;
  }
}

}  // namespace gpt

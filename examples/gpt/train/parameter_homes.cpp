#include "parameter_homes.hpp"

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

}  // namespace gpt

#include <fmt/format.h>

#include <sinew/parallel/data_parallel/memory/owned_part.hpp>

namespace sinew::parallel {

void require_sums(StepProtocol& step, std::string_view call, std::span<const OwnedPart> parts) {
  step.require_summed(call);
  for (const OwnedPart& part : parts) {
    const bool has_gradient = part.gradient.data != nullptr;
    if (part.first == part.last || (has_gradient && (part.sum == 0 || part.sum == step.sums()))) continue;
    step.refuse(call,
                fmt::format("parameter {} came {}", part.parameter,
                            has_gradient ? "with the gradient of another step" : "without a gradient"),
                fmt::format("{} with what finish_backward() has returned in this step", call));
  }
}

}  // namespace sinew::parallel

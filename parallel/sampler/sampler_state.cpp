#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/sampler/sampler_state.hpp>

namespace sinew::parallel {
namespace {

[[noreturn]] void refuse_state(const std::string& why) { throw Error(Code::InvalidArgument, "sampler: " + why); }

}  // namespace

std::string SamplerState::to_string() const {
  return fmt::format("sampler at {} of {} samples of epoch {}, {}", position, samples, epoch,
                     shuffled ? fmt::format("seed {}", seed) : "in the order of their numbers");
}

void require_sound(const SamplerState& state) {
  if (state.samples < 1 || state.samples > kMostSamples)
    refuse_state(fmt::format("{} samples, expected 1 to 2^62", state.samples));
  if (state.epoch < 0) refuse_state(fmt::format("epoch {}, expected 0 or more", state.epoch));
  if (state.position < 0 || state.position > state.samples)
    refuse_state(fmt::format("position {}, expected 0 to {}, the number of samples", state.position, state.samples));
}

}  // namespace sinew::parallel

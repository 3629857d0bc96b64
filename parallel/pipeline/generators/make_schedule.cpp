#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>

namespace sinew::parallel {
namespace {

constexpr NamedGenerator kGenerators[] = {
    {"gpipe", "all forward passes, then all backward passes", false,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return gpipe(p, m); }},
    {"1f1b", "forward and backward passes in turn: fewer live activations than gpipe", false,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return one_forward_one_backward(p, m); }},
    {"interleaved", "1f1b with several stages per rank: idles less, sends more", true,
     [](std::int32_t p, std::int32_t m, std::int32_t v) { return interleaved(p, m, v); }},
    {"looped-bfs", "gpipe with several stages per rank: each is unsharded only twice", true, &looped_breadth_first},
    {"zb-h1", "1f1b with split backward passes: idles a third of it", false,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return zero_bubble_h1(p, m); }},
};

std::string all_names() {
  std::string names;
  for (const NamedGenerator& g : kGenerators) names += (names.empty() ? "" : ", ") + std::string(g.name);
  return names;
}

}  // namespace

std::span<const NamedGenerator> generators() noexcept { return kGenerators; }

PipelineSchedule make_schedule(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                               std::int32_t virtual_stages) {
  const auto* const found = std::ranges::find(kGenerators, name, &NamedGenerator::name);
  if (found == std::end(kGenerators))
    throw Error(Code::InvalidArgument, fmt::format("schedule '{}': expected one of {}", name, all_names()));
  if (virtual_stages != 1 && !found->has_virtual_stages)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} virtual stages: expected 1; interleaved and looped-bfs have several", name,
                            virtual_stages));
  return found->make(ranks, micro_batches, virtual_stages);
}

}  // namespace sinew::parallel

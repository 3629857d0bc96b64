#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int32_t kAnyNumber = NamedGenerator::kAnyNumber;
constexpr StagePlacement kLoop = StagePlacement::Loop, kV = StagePlacement::V;

constexpr NamedGenerator kGenerators[] = {
    {"gpipe", "all forward passes, then all backward passes", 1, 1, kLoop,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return gpipe(p, m); }},
    {"1f1b", "forward and backward passes in turn: fewer live activations than gpipe", 1, 1, kLoop,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return one_forward_one_backward(p, m); }},
    {"interleaved", "1f1b with several stages per rank: idles less, sends more", 1, kAnyNumber, kLoop,
     [](std::int32_t p, std::int32_t m, std::int32_t v) { return interleaved(p, m, v); }},
    {"looped-bfs", "gpipe with several stages per rank: each is unsharded only twice", 1, kAnyNumber, kLoop,
     &looped_breadth_first},
    {"zb-h1", "1f1b with split backward passes: idles a third of it", 1, 1, kLoop,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return zero_bubble_h1(p, m); }},
    {"zb-v", "split backward passes, two stages per rank in a V: idles least, memory of 1f1b", 2, 2, kV,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return zero_bubble_v(p, m); }},
    {"dualpipev", "two stages per rank in a V, pairs of a forward and a backward pass that may overlap", 2, 2, kV,
     [](std::int32_t p, std::int32_t m, std::int32_t) { return dual_pipe_v(p, m); }},
};

std::string all_names() {
  std::string names;
  for (const NamedGenerator& g : kGenerators) names += (names.empty() ? "" : ", ") + std::string(g.name);
  return names;
}

}  // namespace

std::span<const NamedGenerator> generators() noexcept { return kGenerators; }

const NamedGenerator* find_generator(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kGenerators, name, &NamedGenerator::name);
  return found == std::end(kGenerators) ? nullptr : found;
}

PipelineSchedule make_schedule(std::string_view name, std::int32_t ranks, std::int32_t micro_batches,
                               std::optional<std::int32_t> virtual_stages) {
  const NamedGenerator* const found = find_generator(name);
  if (found == nullptr)
    throw Error(Code::InvalidArgument, fmt::format("schedule '{}': expected one of {}", name, all_names()));
  const std::int32_t least = found->least_virtual_stages, most = found->most_virtual_stages;
  const std::int32_t asked = virtual_stages.value_or(least);
  if (least == most && asked != least)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} virtual stages: expected {}; interleaved and looped-bfs have any number", name,
                            asked, least));
  return found->make(ranks, micro_batches, asked);
}

}  // namespace sinew::parallel

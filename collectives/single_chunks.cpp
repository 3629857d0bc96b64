#include <algorithm>
#include <map>

#include <sinew/collectives/dependencies.hpp>
#include <sinew/collectives/single_chunks.hpp>

namespace sinew {
namespace {

std::uint32_t chunks_of(const Step& s) noexcept { return std::max({s.a.count, s.b.count, s.dst.count}); }

Slice chunk(const Slice& slice, std::uint32_t k) noexcept {
  return slice.count == 0 ? slice : Slice{slice.space, slice.first + k, 1};
}

}  // namespace

Program single_chunks(Collective collective, Program program) {
  if (std::ranges::all_of(program.steps, [](const Step& s) { return chunks_of(s) <= 1; })) return program;
  std::vector<Step> steps;
  std::vector<std::uint32_t> dependencies;
  std::vector<std::uint32_t> first;  // of the steps that came of each old one
  std::map<std::pair<Op, std::int32_t>, std::uint32_t> messages;
  for (const Step& old : program.steps) {
    first.push_back(static_cast<std::uint32_t>(steps.size()));
    DepRange deps{static_cast<std::uint32_t>(dependencies.size()), 0};
    for (std::uint32_t d = 0; d < old.deps.count; ++d) {
      const std::uint32_t before = program.dependencies[old.deps.first + d];
      for (std::uint32_t s = first[before]; s < first[before + 1]; ++s) dependencies.push_back(s);
    }
    deps.count = static_cast<std::uint32_t>(dependencies.size()) - deps.first;
    for (std::uint32_t k = 0; k < chunks_of(old); ++k) {
      Step step = old;
      step.a = chunk(old.a, k);
      step.b = chunk(old.b, k);
      step.dst = chunk(old.dst, k);
      step.deps = deps;
      if (old.peer >= 0) step.match = messages[{old.op, old.peer}]++;
      steps.push_back(step);
    }
  }
  program.steps = std::move(steps);
  program.dependencies = std::move(dependencies);
  derive_dependencies(collective, program);
  return program;
}

}  // namespace sinew

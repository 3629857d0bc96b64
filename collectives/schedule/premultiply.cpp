#include <utility>

#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>
#include <sinew/collectives/schedule/premultiply.hpp>

namespace sinew {
namespace {

Step copy(Slice dst, Slice a, ElementMap map) { return {.op = Op::Copy, .map = map, .a = a, .dst = dst}; }

/// Whether an Out chunk that is input as well is read, or left, as it came: where a copy onto itself was dropped.
bool is_result_as_it_came(const Program& program, const Cells& cells, std::uint32_t in_chunk) {
  const std::uint32_t cell = cells.of(Space::In, in_chunk);
  const auto touches = [&](Slice s) {
    for (std::uint32_t k = 0; k < s.count; ++k) {
      if (cells.of(s.space, s.first + k) == cell) return true;
    }
    return false;
  };
  for (const Step& s : program.steps) {
    for (const Slice read : {s.a, s.b}) {
      if (read.space != Space::In && touches(read)) return true;
    }
    if (touches(s.dst)) return false;
  }
  return true;
}

}  // namespace

Program premultiplied(const CollectiveDesc& desc, Program program) {
  if (!reduces(desc.collective) || desc.op != ReduceOp::PreMulSum) return program;
  const Cells cells(desc.collective, program);
  const auto chunks = static_cast<std::uint32_t>(program.in_class.size());
  const auto base = static_cast<std::uint32_t>(program.scratch_class.size());
  std::uint32_t shared = 0;
  for (std::uint32_t i = 0; i < chunks; ++i) shared += cells.shared(i) ? 1 : 0;
  const bool redirect = shared < chunks;

  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < chunks; ++i) {
    const Slice in{Space::In, i, 1};
    const Slice scaled{Space::Scratch, base + i, 1};
    if (!redirect) {
      steps.push_back(copy(in, in, ElementMap::Scale));
    } else {
      steps.push_back(copy(scaled, in, ElementMap::Scale));
      if (cells.shared(i) && is_result_as_it_came(program, cells, i))
        steps.push_back(copy(in, scaled, ElementMap::None));
    }
  }
  const auto shift = static_cast<std::uint32_t>(steps.size());
  for (std::uint32_t& d : program.dependencies) d += shift;
  for (Step step : program.steps) {
    for (Slice* slice : {&step.a, &step.b}) {
      if (redirect && slice->count > 0 && slice->space == Space::In)
        *slice = {Space::Scratch, base + slice->first, slice->count};
    }
    steps.push_back(step);
  }
  if (redirect)
    program.scratch_class.insert(program.scratch_class.end(), program.in_class.begin(), program.in_class.end());
  program.steps = std::move(steps);
  derive_dependencies(desc.collective, program);
  return program;
}

}  // namespace sinew

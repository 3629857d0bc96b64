#include <unordered_map>

#include <sinew/collectives/schedule/sized_messages.hpp>

namespace sinew {

SizedMessages::SizedMessages(const Program& program)
    : run_of(program.scratch_class.size(), kNone),
      told_by(program.scratch_class.size(), kUntold),
      told_in(program.scratch_class.size(), kNone) {
  struct Teller {
    std::uint32_t step, chunk;
  };
  std::unordered_map<std::uint32_t, Teller> teller_of;  // by class
  for (const auto* classes : {&program.in_class, &program.out_class}) {
    for (const std::uint32_t c : *classes) teller_of.try_emplace(c, Teller{kKnown, kNone});
  }
  std::uint64_t heads = 0;
  for (std::uint32_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.op != Op::Send && step.op != Op::Recv) continue;
    const Slice s = step.op == Op::Send ? step.a : step.dst;
    if (s.space != Space::Scratch || s.count == 0 || std::size_t{s.first} + s.count > run_of.size()) continue;
    if (step.op == Op::Recv) {
      for (std::uint32_t c = s.first; c < s.first + s.count; ++c)
        teller_of.try_emplace(program.scratch_class[c], Teller{i, c});
    }
    if (run_of[s.first] != kNone) continue;  // a run that was received and is sent on
    for (std::uint32_t c = s.first; c < s.first + s.count; ++c) run_of[c] = static_cast<std::uint32_t>(runs.size());
    runs.push_back({s.first, s.count, heads});
    heads += runs.back().head_bytes();
  }
  for (std::size_t c = 0; c < told_by.size(); ++c) {
    const auto found = teller_of.find(program.scratch_class[c]);
    if (found == teller_of.end()) continue;
    told_by[c] = found->second.step;
    told_in[c] = found->second.chunk;
  }
}

}  // namespace sinew

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/schedule/schedule_text.hpp>
#include <sinew/collectives/schedule/sized_messages.hpp>
#include <sinew/collectives/verify/checks.hpp>
#include <sinew/collectives/verify/order.hpp>

namespace sinew::verifier {
namespace {

using Index = Order::Index;

/// The slice of a message; of other steps one with count 0.
Slice moved(const Step& s) { return s.op == Op::Send ? s.a : s.op == Op::Recv ? s.dst : Slice{}; }

/// Says what is wrong with a step of a sized program. The text is empty if nothing is.
std::string fault_of_step(const SizedMessages& messages, const Step& s) {
  for (const Slice& slice : {s.a, s.b, s.dst}) {
    if (slice.space != Space::Scratch || slice.count == 0) continue;
    const SizedMessages::Run& of = messages.run_with(slice.first);
    if (slice.first + slice.count > of.first + of.count) return "uses chunks of two messages as one run";
  }
  const Slice run = moved(s);
  if (run.count == 0) return {};
  if (run.space != Space::Scratch) return "is a sized message outside of scratch, which has no room for sizes";
  if (s.op == Op::Recv && s.a.count > 0) return "adds up a sized message";
  for (Index c = run.first; c < run.first + run.count; ++c) {
    const SizedMessages::Run& of = messages.run_with(c);
    if (of.first != run.first || of.count != run.count)
      return fmt::format("shares {} with another message", chunk_name(Space::Scratch, c));
  }
  return {};
}

/// Every size is told, and before the step that needs it.
ScheduleVerdict check_sized(const Schedule& schedule, std::size_t rank) {
  const Program& p = schedule.programs[rank];
  const SizedMessages messages(p);
  for (Index c = 0; c < p.scratch_class.size(); ++c) {
    if (messages.run_of[c] == SizedMessages::kNone)
      return reject(schedule, rank, -1, fmt::format("{} is in no message", chunk_name(Space::Scratch, c)));
    if (messages.told_by[c] == SizedMessages::kUntold)
      return reject(schedule, rank, -1, fmt::format("nobody tells the size of {}", chunk_name(Space::Scratch, c)));
  }
  Order order(p);
  std::vector<Index> tellers;
  for (Index i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    if (const std::string fault = fault_of_step(messages, s); !fault.empty())
      return reject(schedule, rank, static_cast<int>(i), fault);
    tellers.clear();
    messages.for_each_teller(i, s, [&](Index teller) { tellers.push_back(teller); });
    const auto later = std::ranges::find_if(tellers, [&](Index teller) { return teller > i; });
    const Index missing = later != tellers.end() ? *later : order.unordered(i, tellers);
    if (missing == Order::kNone) continue;
    return reject(schedule, rank, static_cast<int>(i),
                  fmt::format("may run before {}, which tells it a size", name_of(p, missing)));
  }
  return {};
}

/// A rank of a call with local counts has only the sizes in its own counts.
ScheduleVerdict check_known(const Schedule& schedule, std::size_t rank) {
  const Program& p = schedule.programs[rank];
  const auto known = [&](std::uint32_t c) {
    return std::ranges::find(p.in_class, c) != p.in_class.end() ||
           std::ranges::find(p.out_class, c) != p.out_class.end();
  };
  for (Index c = 0; c < p.scratch_class.size(); ++c) {
    if (!known(p.scratch_class[c])) {
      return reject(schedule, rank, -1, fmt::format("nobody tells the size of {}", chunk_name(Space::Scratch, c)));
    }
  }
  return {};
}

}  // namespace

ScheduleVerdict check_sizes(const Schedule& schedule) {
  const bool local = has_local_counts(schedule.desc.collective);
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    const Program& p = schedule.programs[rank];
    if (p.sized && (!local || !p.whole))
      return reject(schedule, rank, -1, "messages are sized, but counts are not local or chunks may be cut");
    if (p.sized != schedule.programs[0].sized)
      return reject(schedule, rank, -1, fmt::format("messages are {}sized, unlike rank 0's", p.sized ? "" : "not "));
    for (Index i = 0; is_v_form(schedule.desc.collective) && i < p.steps.size(); ++i) {
      for (const Slice& s : {p.steps[i].a, p.steps[i].b, p.steps[i].dst}) {
        if (s.count > 1 && s.space != Space::Scratch)
          return reject(schedule, rank, static_cast<int>(i), "moves a run of parts, which need not lie side by side");
      }
    }
    if (!local) continue;
    if (ScheduleVerdict v = p.sized ? check_sized(schedule, rank) : check_known(schedule, rank); !v) return v;
  }
  return {};
}

}  // namespace sinew::verifier

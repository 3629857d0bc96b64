#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <sinew/collectives/verify/checks.hpp>

namespace sinew::verifier {
namespace {

using Index = std::uint32_t;
constexpr Index kNone = std::numeric_limits<Index>::max();

/// Of a set of earlier steps, one that is not among the predecessors (at any distance) of a step.
class Order {
 public:
  explicit Order(const Program& p) : program_(p), seen_(p.steps.size(), kNone), wanted_(p.steps.size(), kNone) {}

  /// Looks at near predecessors first and stops when all are found: mostly after one look.
  Index unordered(Index step, const std::vector<Index>& earlier) {
    Index missing = 0;
    Index lowest = step;
    for (const Index e : earlier) {
      if (wanted_[e] == step) continue;
      wanted_[e] = step;
      lowest = std::min(lowest, e);
      ++missing;
    }
    queue_.assign(1, step);
    for (std::size_t at = 0; missing > 0 && at < queue_.size(); ++at) {
      const DepRange deps = program_.steps[queue_[at]].deps;
      for (Index k = 0; k < deps.count; ++k) {
        const Index d = program_.dependencies[deps.first + k];
        if (d < lowest || seen_[d] == step) continue;
        seen_[d] = step;
        if (wanted_[d] == step) --missing;
        queue_.push_back(d);
      }
    }
    if (missing == 0) return kNone;
    return *std::find_if(earlier.begin(), earlier.end(), [&](Index e) { return seen_[e] != step; });
  }

 private:
  const Program& program_;
  std::vector<Index> seen_;    ///< the step whose predecessors were last walked through here
  std::vector<Index> wanted_;  ///< the step that must come after this one
  std::vector<Index> queue_;
};

struct Cell {
  Index writer = kNone;
  std::vector<Index> readers;  ///< since that write
};

/// Dependencies point backwards, so steps that are ordered at all are ordered as they are numbered: it is enough to
/// compare each access with the last write, and each write with the reads since then.
ScheduleVerdict check_rank(const Schedule& schedule, std::size_t rank) {
  const Program& p = schedule.programs[rank];
  const Cells cells(schedule.desc.collective, p);
  std::vector<Cell> touched(cells.first_scratch() + p.scratch_class.size());
  Order order(p);
  std::vector<Index> earlier;
  for (Index i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    earlier.clear();
    for (const Slice read : {s.a, s.b}) {
      for (Index k = 0; k < read.count; ++k) {
        Cell& cell = touched[cells.of(read.space, read.first + k)];
        if (cell.writer != kNone) earlier.push_back(cell.writer);
        cell.readers.push_back(i);
      }
    }
    for (Index k = 0; k < s.dst.count; ++k) {
      Cell& cell = touched[cells.of(s.dst.space, s.dst.first + k)];
      if (cell.writer != kNone) earlier.push_back(cell.writer);
      earlier.insert(earlier.end(), cell.readers.begin(), cell.readers.end());
      cell = {i, {}};
    }
    std::erase(earlier, i);
    const Index other = order.unordered(i, earlier);
    if (other == kNone) continue;
    return reject(schedule, rank, static_cast<int>(i),
                  fmt::format("may run at the same time as {}, on the same memory", name_of(p, other)));
  }
  return {};
}

}  // namespace

ScheduleVerdict check_races(const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    if (ScheduleVerdict v = check_rank(schedule, rank); !v) return v;
  }
  return {};
}

}  // namespace sinew::verifier

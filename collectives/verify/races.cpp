#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/verify/checks.hpp>
#include <sinew/collectives/verify/order.hpp>

namespace sinew::verifier {
namespace {

using Index = Order::Index;
constexpr Index kNone = Order::kNone;

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

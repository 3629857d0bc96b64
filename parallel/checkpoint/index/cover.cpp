#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/index/cover.hpp>

namespace sinew::parallel {
namespace {

struct HeldRun {
  std::int64_t first = 0, last = 0;
  int rank = 0;
};

[[noreturn]] void reject(const CheckpointItem& item, std::int64_t first, std::int64_t last, const std::string& where) {
  throw Error(Code::InvalidArgument, fmt::format("{}: elements [{}, {}) are {}; expected each element in one part",
                                                 item.to_string(), first, last, where));
}

}  // namespace

void require_covered(const CheckpointItem& item, const std::vector<HeldExtent>& extents) {
  std::vector<HeldRun> runs;
  for (const HeldExtent& e : extents) {
    for (const ElementRun& run : runs_of(item, e.extent)) runs.push_back({run.first, run.last, e.rank});
  }
  std::ranges::sort(runs, {}, [](const HeldRun& r) { return std::pair(r.first, r.rank); });
  std::int64_t end = 0;
  int rank = -1;  // that has what is before end
  for (const HeldRun& run : runs) {
    if (run.first > end) reject(item, end, run.first, "in no part");
    if (run.first < end)
      reject(item, run.first, std::min(end, run.last),
             fmt::format("in parts of rank {} and of rank {}", rank, run.rank));
    end = run.last;
    rank = run.rank;
  }
  if (end < item.elements()) reject(item, end, item.elements(), "in no part");
}

}  // namespace sinew::parallel

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>
#include <sinew/collectives/schedule/sized_messages.hpp>

namespace sinew {
namespace {

using Index = std::uint32_t;
constexpr Index kNone = std::numeric_limits<Index>::max();

/// Who touched a cell last.
struct Cell {
  Index writer = kNone;
  std::vector<Index> readers;  ///< since that write
};

/// Walks the steps in program order and collects, for one at a time, the earlier steps it must wait for.
class Hazards {
 public:
  Hazards(Collective collective, const Program& p)
      : cells_(collective, p), touched_(cells_.first_scratch() + p.scratch_class.size()) {}

  void visit(Index index, const Step& s, std::vector<Index>& before) {
    for (const Slice a : {s.a, s.b}) {
      each(a, [&](Cell& cell) {
        if (cell.writer != kNone) before.push_back(cell.writer);
        if (cell.readers.empty() || cell.readers.back() != index) cell.readers.push_back(index);
      });
    }
    each(s.dst, [&](Cell& cell) {
      if (cell.writer != kNone) before.push_back(cell.writer);
      before.insert(before.end(), cell.readers.begin(), cell.readers.end());
      cell.readers.clear();
      cell.writer = index;
    });
    std::erase(before, index);
  }

 private:
  template <class F>
  void each(Slice slice, F&& f) {
    for (Index k = 0; k < slice.count; ++k) f(touched_[cells_.of(slice.space, slice.first + k)]);
  }

  Cells cells_;
  std::vector<Cell> touched_;
};

/// Finds which of a step's candidates are predecessors of others.
class Implied {
 public:
  explicit Implied(std::size_t steps) : reached_from_(steps, kNone) {}

  /// Marks all predecessors of `from`, down to step `lowest`, on behalf of `step`.
  void reach(Index step, Index from, Index lowest, const std::vector<Step>& steps, const std::vector<Index>& found) {
    stack_.assign(1, from);
    while (!stack_.empty()) {
      const DepRange deps = steps[stack_.back()].deps;
      stack_.pop_back();
      for (Index k = 0; k < deps.count; ++k) {
        const Index d = found[deps.first + k];
        if (d < lowest || reached_from_[d] == step) continue;
        reached_from_[d] = step;
        stack_.push_back(d);
      }
    }
  }
  bool reached(Index step, Index candidate) const { return reached_from_[candidate] == step; }

 private:
  std::vector<Index> reached_from_;
  std::vector<Index> stack_;
};

}  // namespace

void derive_dependencies(Collective collective, Program& program) {
  std::vector<Index> found;
  std::vector<Index> before;
  Implied implied(program.steps.size());
  Hazards hazards(collective, program);
  std::optional<SizedMessages> messages;
  if (program.sized) messages.emplace(program);
  for (Index i = 0; i < program.steps.size(); ++i) {
    Step& step = program.steps[i];
    const auto stated = program.dependencies.begin() + step.deps.first;
    before.assign(stated, stated + step.deps.count);
    hazards.visit(i, step, before);
    if (messages) {
      messages->for_each_teller(i, step, [&](Index teller) {
        if (teller < i) before.push_back(teller);
      });
    }
    std::sort(before.begin(), before.end(), std::greater<>());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    step.deps = {static_cast<Index>(found.size()), 0};
    for (const Index d : before) {
      if (implied.reached(i, d)) continue;
      found.push_back(d);
      ++step.deps.count;
      if (d != before.back()) implied.reach(i, d, before.back(), program.steps, found);
    }
  }
  program.dependencies = std::move(found);
}

}  // namespace sinew

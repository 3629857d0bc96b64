#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include <sinew/collectives/schedule/schedule_text.hpp>
#include <sinew/collectives/verify/checks.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/numeric/canonical_tree.hpp>

namespace sinew::verifier {
namespace {

using Index = std::uint32_t;

/// Judges what the Out chunks hold after all steps.
class Results {
 public:
  Results(const Schedule& schedule, Memory& memory)
      : schedule_(schedule),
        memory_(memory),
        ranks_(static_cast<Index>(schedule.programs.size())),
        ordered_(needs_canonical_order(schedule.desc, static_cast<int>(ranks_))) {}

  ScheduleVerdict check() {
    for (std::size_t rank = 0; rank < schedule_.programs.size(); ++rank) {
      const auto chunks = static_cast<Index>(schedule_.programs[rank].out_class.size());
      std::unordered_set<Value> tokens;
      for (Index i = 0; i < chunks; ++i) {
        const Value value = memory_.at(rank, Space::Out, i);
        std::string fault = fault_of(rank, i, value);
        if (schedule_.desc.collective == Collective::Barrier && !tokens.insert(value).second) {
          fault = "holds a token that another chunk holds, too";
        }
        if (fault.empty()) continue;
        return reject(schedule_, rank, -1, fmt::format("in the end {} {}", chunk_name(Space::Out, i), fault));
      }
    }
    return {};
  }

 private:
  /// What is wrong with a result; empty: nothing.
  std::string fault_of(std::size_t rank, Index chunk, Value value) {
    if (value == kUndefined) return "is never written";
    const auto root = static_cast<std::size_t>(schedule_.desc.root);
    const auto r = static_cast<Index>(rank);
    switch (plain_form(schedule_.desc.collective)) {
      case Collective::AllReduce: return sum_fault(value, chunk, memory_.at(0, Space::Out, chunk));
      case Collective::Reduce: return sum_fault(value, chunk, value);
      case Collective::ReduceScatter: return sum_fault(value, r, value);
      case Collective::Broadcast: return input_fault(value, memory_.inputs[root][chunk]);
      case Collective::Scatter: return input_fault(value, memory_.inputs[root][r]);
      case Collective::AllGather: {
        std::string fault = input_fault(uncoded(value), memory_.inputs[chunk][0]);
        if (!fault.empty() || value == memory_.at(0, Space::Out, chunk)) return fault;
        return "is coded otherwise than on rank 0";
      }
      case Collective::Gather: return input_fault(value, memory_.inputs[chunk][0]);
      case Collective::AllToAll: return input_fault(value, memory_.inputs[chunk][r]);
      default: return memory_.expressions[value].kind == Kind::Input ? "" : "is not a token";
    }
  }

  /// What was coded once, if the value is what that decodes to; else the value.
  Value uncoded(Value value) const {
    const Expression& decoded = memory_.expressions[value];
    if (decoded.kind != Kind::Decode) return value;
    const Expression& encoded = memory_.expressions[decoded.a];
    return encoded.kind == Kind::Encode ? encoded.a : value;
  }

  std::string input_fault(Value value, Value expected) const {
    if (value == expected) return {};
    const Expression& found = memory_.expressions[value];
    const Expression& right = memory_.expressions[expected];
    if (found.kind != Kind::Input)
      return fmt::format("holds a sum or a scaled value, not in[{}] of rank {}", right.b, right.a);
    return fmt::format("holds in[{}] of rank {}, not in[{}] of rank {}", found.b, found.a, right.b, right.a);
  }

  /// The sum of In chunk `chunk` of all ranks; the same tree as on rank 0.
  std::string sum_fault(Value value, Index chunk, Value on_rank_0) {
    const auto known = right_.find(value);
    if (known == right_.end() || known->second != chunk) {
      std::string fault = contribution_fault(value, chunk);
      if (!fault.empty()) return fault;
      if (ordered_ && value != canonical_sum(chunk)) return "is not summed up by the canonical tree";
      right_[value] = chunk;
    }
    return value == on_rank_0 ? "" : "is summed up in another order than on rank 0";
  }

  /// An expression that is there already, if some rank has it.
  Value canonical_sum(Index chunk) {
    Expressions& all = memory_.expressions;
    const ReduceOp op = schedule_.desc.op;
    const auto leaf = [&](int r) {
      const Value given = memory_.inputs[static_cast<std::size_t>(r)][chunk];
      return op == ReduceOp::PreMulSum ? all.apply(Kind::Scale, given) : given;
    };
    const auto sum = [&](Value left, Value right) { return all.sum(left, right); };
    const Value whole = over_canonical_tree(0, static_cast<int>(ranks_), leaf, sum);
    return op == ReduceOp::Average ? all.apply(Kind::Scale, whole) : whole;
  }

  std::string contribution_fault(Value value, Index chunk) const {
    const ReduceOp op = schedule_.desc.op;
    if (op == ReduceOp::Average) {
      value = uncoded(value);  // the average is what was coded last
      if (memory_.expressions[value].kind != Kind::Scale) return "is not scaled at the end";
      value = memory_.expressions[value].a;
    }
    const Expression* top = &memory_.expressions[value];
    if (top->inputs != ranks_) return fmt::format("holds {} contributions of {} ranks", top->inputs, ranks_);
    std::vector<bool> given(ranks_);
    for (std::vector<Value> left{value}; !left.empty();) {
      const Expression* e = &memory_.expressions[left.back()];
      left.pop_back();
      if (e->kind == Kind::Sum) {
        left.push_back(e->a);
        left.push_back(e->b);
        continue;
      }
      if (e->kind == Kind::Decode) {
        const Value before = memory_.expressions[e->a].a;
        if (memory_.expressions[e->a].kind != Kind::Encode) return "holds what was decoded, but never encoded";
        if (memory_.expressions[before].kind == Kind::Decode) return "was coded twice on its way";
        left.push_back(before);
        continue;
      }
      if (op == ReduceOp::PreMulSum) {
        if (e->kind != Kind::Scale) return "holds a contribution that was not scaled";
        e = &memory_.expressions[e->a];
      }
      if (e->kind != Kind::Input) return "is scaled or encoded where it should not be";
      if (e->b != chunk) return fmt::format("holds in[{}] of rank {}, another chunk", e->b, e->a);
      if (given[e->a]) return fmt::format("holds the contribution of rank {} twice", e->a);
      given[e->a] = true;
    }
    return {};
  }

  const Schedule& schedule_;
  Memory& memory_;
  Index ranks_;
  bool ordered_;
  std::unordered_map<Value, Index> right_;  ///< sums that were found right, and of which chunk
};

}  // namespace

ScheduleVerdict check_results(const Schedule& schedule, Memory& memory) { return Results(schedule, memory).check(); }

std::string name_of(const Program& p, Index step) { return fmt::format("step {} ({})", step, to_text(p.steps[step])); }

std::string chunk_name(Space space, Index chunk) {
  const char* name = space == Space::In ? "in" : space == Space::Out ? "out" : "scratch";
  return fmt::format("{}[{}]", name, chunk);
}

ScheduleVerdict reject(const Schedule& schedule, std::size_t rank, int step, const std::string& what) {
  const std::string where = step < 0 ? "" : ", " + name_of(schedule.programs[rank], static_cast<std::uint32_t>(step));
  return {false, static_cast<int>(rank), step, fmt::format("rank {}{}: {}", rank, where, what)};
}

}  // namespace sinew::verifier

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/selection/selector.hpp>
#include <sinew/collectives/simulator/cast.hpp>
#include <sinew/collectives/simulator/kinds.hpp>
#include <sinew/collectives/simulator/likeness.hpp>
#include <sinew/collectives/simulator/network_costs.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// What a program takes to hold, in steps. A chunk takes less, but in some there is one for each rank.
std::uint64_t held_steps(const Program& p) {
  constexpr std::size_t kChunksPerStep = 8;
  return p.steps.size() + (p.in_class.size() + p.out_class.size() + p.scratch_class.size()) / kChunksPerStep;
}

class Casting {
 public:
  Casting(const Recipe& recipe, const CollectiveDesc& desc, const Network& network, const SimulationOptions& options)
      : recipe_(recipe), desc_(desc), network_(network), options_(options) {}

  Cast find() {
    const auto [symmetry, in_order] = choose();
    return {symmetry, in_order, executables(symmetry), desc_.dtype};
  }

 private:
  Program build(int rank) const { return recipe_.build(desc_, rank, network_.ranks(), false); }
  const Program& program(int rank) {
    const auto known = programs_.find(rank);
    return known != programs_.end() ? known->second : programs_.emplace(rank, build(rank)).first->second;
  }

  std::pair<Symmetry, bool> choose() {
    const Symmetry none = Symmetry::none(network_);
    if (options_.every_rank || has_root(desc_.collective)) return {none, true};
    const std::vector<Symmetry> all = Symmetry::all_of(network_);
    const auto is_short = [&](const Symmetry& s, std::uint64_t most) {
      return static_cast<std::uint64_t>(s.kinds()) * held_steps(program(0)) <= most && can_be_composed(s);
    };
    for (const Symmetry& s : all) {
      if (s.exact() && is_short(s, options_.exact_steps) && holds(s, Likeness::InOrder)) return {s, true};
    }
    for (const Symmetry& s : all) {
      if (s.alike() > 1 && is_short(s, options_.most_steps) && holds(s, Likeness::InOrder)) return {s, true};
    }
    // Most kinds first: the more of a host is simulated, the less is approximated.
    for (const std::uint64_t most : {options_.exact_steps, options_.most_steps}) {
      for (const Symmetry& s : std::views::reverse(all)) {
        if (s.alike() > 1 && is_short(s, most) && holds(s, Likeness::InAnyOrder)) return {s, false};
      }
    }
    if (recipe_.hierarchical() == nullptr && network_.ranks_on.empty() &&
        network_.ranks() >= options_.fewest_for_kinds) {
      if (steps_by_sample() > 2 * options_.most_steps) refuse(network_.ranks());
      const auto most = static_cast<std::size_t>(network_.ranks() / 2);
      if (auto by = find_kinds([this](int rank) -> const Program& { return program(rank); }, desc_, network_, most))
        return {Symmetry(network_, std::make_shared<const Kinds>(std::move(*by))), true};
    }
    return {none, true};
  }

  /// Estimates the sum of held_steps() over all ranks from 64 of them.
  std::uint64_t steps_by_sample() const {
    constexpr int kSamples = 64;
    std::uint64_t steps = 0;
    for (int i = 0; i < kSamples; ++i)
      steps += held_steps(build(static_cast<int>(static_cast<std::int64_t>(network_.ranks()) * i / kSamples)));
    return steps * static_cast<std::uint64_t>(network_.ranks()) / kSamples;
  }

  [[noreturn]] void refuse(int programs) const {
    throw Error(Code::InvalidArgument,
                fmt::format("{} by {} on {}: too few ranks behave alike; {} programs take the memory of more than {} "
                            "steps",
                            desc_.to_string(), recipe_.name(), network_.name, programs, options_.most_steps));
  }

  bool can_be_composed(const Symmetry& s) const {
    return recipe_.hierarchical() == nullptr || s.kinds() <= options_.most_composed;
  }

  /// Of the first kind, and the last.
  bool holds(const Symmetry& s, Likeness likeness) {
    for (const int kind : std::set<int>{0, s.kinds() - 1}) {
      const Program& first = program(s.first_of(kind));
      for (const int rank : s.samples(kind)) {
        if (!are_alike(desc_, first, program(rank), s, likeness)) return false;
      }
    }
    return true;
  }

  std::vector<std::unique_ptr<Executable>> executables(const Symmetry& s) {
    if (!can_be_composed(s)) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{} on {}: no ranks behave alike, and programs of a composition are built for {} at most",
                              desc_.to_string(), network_.name, options_.most_composed));
    }
    std::vector<Program> programs;
    std::uint64_t steps = 0;
    Segmentation segmentation = options_.segmentation.value_or(kSegmentation);
    const bool finds_scratch = !options_.segmentation;
    if (finds_scratch && network_.hosts > 1)  // as Selector allows it
      segmentation.most_scratch = scratch_to_fill(NetworkCosts(network_).link(0, network_.ranks() - 1).alone);
    for (int kind = 0; kind < s.kinds(); ++kind) {
      const auto known = programs_.find(s.first_of(kind));
      programs.push_back(known != programs_.end() ? std::move(known->second) : build(s.first_of(kind)));
      steps += held_steps(programs.back());
      if (finds_scratch)
        segmentation.scratch_bytes = std::max(segmentation.scratch_bytes, scratch_bytes(programs.back()));
      if (steps > options_.most_steps) refuse(s.kinds());
    }
    programs_.clear();
    std::vector<std::unique_ptr<Executable>> code;
    for (Program& p : programs)
      code.push_back(Executable::make(desc_, std::move(p), segmentation, [](int) -> Endpoint* { return nullptr; }));
    return code;
  }

  std::uint64_t scratch_bytes(const Program& p) const {
    const ChunkTable chunks = chunk_table(desc_, p);
    std::uint64_t bytes = 0;
    for (std::size_t c = 0; c < chunks.scratch.size(); ++c)
      bytes += chunk_bytes(p.scratch_class[c], chunks.scratch[c].count, desc_.codec, size_of(desc_.dtype));
    return bytes;
  }

  const Recipe& recipe_;
  const CollectiveDesc& desc_;
  const Network& network_;
  const SimulationOptions& options_;
  std::map<int, Program> programs_;
};

}  // namespace

Cast find_cast(const Recipe& recipe, const CollectiveDesc& desc, const Network& network,
               const SimulationOptions& options) {
  if (is_message(desc.collective) || has_local_counts(desc.collective)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: expected a collective whose counts are the same on all ranks", desc.to_string()));
  }
  return Casting(recipe, desc, network, options).find();
}

}  // namespace sinew

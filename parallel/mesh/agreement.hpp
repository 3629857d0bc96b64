#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// A hash that is equal on all ranks of a job, because they run the same library.
std::uint64_t hash_of(std::string_view bytes);

/// The texts of all ranks, by rank.
/// Errors: as all_gather_v.
std::vector<std::string> texts_of_all(Communicator& all, const std::string& text, const CallOptions& options = {});

/// Ranks that ask for different things.
struct Difference {
  std::string text;  ///< "mesh: rank 0 has 'tp 2, dp 4', rank 3 'tp 4, dp 2'; expected the same on all ranks"
  int rank = -1;  ///< the first rank that differs from most ranks, or, if no value has most ranks, from the first rank
  bool suspect = false;  ///< this rank differs from most ranks, or no value has most ranks
};

/// Checks that all ranks have the same text. If they did not, what follows would hang or mix groups up. `what` begins
/// the error text, and is the label of the calls. numbers[r] is the value of Difference::rank for rank r of `all`. If
/// `numbers` is empty, that value is r.
/// Errors: as all_reduce.
/// Cost:   an all_reduce of 16 bytes. If ranks differ, also a gather of all texts.
std::optional<Difference> difference_on(Communicator& all, std::string_view what, const std::string& text,
                                        const CallOptions& options, const std::vector<int>& numbers = {});

/// Finds the rank that differs, as difference_on does, in values that this rank has gathered. Returns no text.
/// all: the values of all ranks, by rank. They are not all equal.
/// rank: this rank.
template <class T>
Difference difference_of(const std::vector<T>& all, int rank) {
  std::map<T, int> holders;
  for (const T& value : all) ++holders[value];
  const int most = std::ranges::max(std::views::values(holders));
  const bool tied = std::ranges::count(std::views::values(holders), most) > 1;
  const T& usual = *std::ranges::find_if(all, [&](const T& value) { return holders[value] == most; });
  const auto other = std::ranges::find_if(all, [&](const T& value) { return value != usual; });
  return {.text = {},
          .rank = static_cast<int>(other - all.begin()),
          .suspect = tied || all[static_cast<std::size_t>(rank)] != usual};
}

/// Errors: InvalidArgument on all ranks alike, with the first rank that differs. Otherwise as difference_on.
void require_equal_on_all(Communicator& all, std::string_view what, const std::string& text,
                          const CallOptions& options);

/// The rank of the mesh that stops the others: a rank that has a fault of its own, otherwise the rank that is a suspect
/// in most of its groups. -1: none. All ranks get the same result. `differs`: in how many groups this rank is a
/// suspect.
int who_stops(Mesh& mesh, const std::vector<std::string>& groups, bool fault, int differs, const CallOptions& options);

/// Replaces each value by the largest over all ranks of these groups of the mesh.
template <class T>
void take_largest(std::span<T> values, const std::vector<std::string>& groups, Mesh& mesh, const CallOptions& options) {
  for (const std::string& axes : groups)
    mesh.along(axes)
        .all_reduce(values, ReduceOp::Max,
                    {.deadline = options.deadline, .label = options.label, .where = options.where})
        .get();
}

}  // namespace sinew::parallel

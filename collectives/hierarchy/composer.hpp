#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/collectives/hierarchy/composition.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {

using Ranks = std::vector<int>;
using Slices = std::vector<Slice>;

inline int at(const Ranks& ranks, int place) { return ranks[static_cast<std::size_t>(place)]; }
int count(const auto& list) { return static_cast<int>(list.size()); }

/// The steps of one rank, level by level. A block or chunk without chunks (Slice::count 0) is one that there is not.
class Composer {
 public:
  Composer(const Composition& how, const CollectiveDesc& desc, int rank, ProgramBuilder& to)
      : how_(how), desc_(desc), rank_(rank), to_(to) {}

  /// Chunks that an all_reduce of these ranks is made of, equal on all of them.
  static int chunks(const Composition& how, const CollectiveDesc& desc, const Ranks& ranks, std::size_t level);

  void all_reduce(const Ranks& ranks, std::size_t level, const Slices& in, const Slices& out);
  void all_gather(const Ranks& ranks, std::size_t level, Slice in, const Slices& out);
  void reduce_scatter(const Ranks& ranks, std::size_t level, const Slices& in, Slice out);
  void broadcast(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out);
  void reduce(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out);
  /// Among all ranks, by the parts of the coarsest level that there are.
  void all_to_all(const Ranks& ranks);

 private:
  /// The parts of some ranks on one level, as seen from this one.
  struct Parts {
    std::vector<Ranks> all;
    int mine = 0;   ///< part
    int place = 0;  ///< in it
    int stripes = 0;

    const Ranks& own() const { return all[static_cast<std::size_t>(mine)]; }
    /// Who carries a stripe, of each part.
    Ranks equals(int stripe) const {
      Ranks some;
      for (const Ranks& part : all) some.push_back(at(part, stripe % count(part)));
      return some;
    }
    bool carries(int stripe) const { return stripe % count(own()) == place; }
    /// How often every rank of this part must have a stripe, for all to be dealt.
    int waves() const { return (stripes + count(own()) - 1) / count(own()); }
  };

  /// nullopt: these ranks are not parted any more.
  static std::optional<std::vector<Ranks>> parted(const Levels& levels, const Ranks& ranks, std::size_t& level);
  std::optional<Parts> parts_of(const Ranks& ranks, std::size_t& level) const;
  Parts coarsest_parts(const Ranks& ranks) const;
  /// The ranks of other parts whose stripes somebody of this part carries.
  static Ranks takers(const Parts& parts, int place);
  /// By place in this part: a run of what is for this rank, which is copied there, and of what is for its takers().
  std::vector<Slice> collect(const Parts& parts, int ranks);
  Slice aside(const Ranks& givers);
  int place_of(const Ranks& ranks) const { return static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin()); }
  /// One algorithm among some ranks. `complete`: its sums are those of all ranks.
  void run(Collective collective, std::string_view name, const Ranks& ranks, Slices in, Slices out, bool complete,
           int root = 0);

  const Composition& how_;
  const CollectiveDesc& desc_;
  int rank_;
  ProgramBuilder& to_;
};

}  // namespace sinew

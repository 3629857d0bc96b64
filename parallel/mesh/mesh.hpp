#pragma once

// The ranks as a grid with named axes. The room holds the arithmetic of axes, communicators for groups of ranks,
// agreement between ranks, and the rules of layouts. It may include the room `common`.

#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {

class GroupMaker;

/// A factorisation of a communicator's ranks, with this rank's communicator for each group that is asked for.
/// The constructor makes all communicators in the order of `groups`, which is the same on all ranks. If communicators
/// were made at their first use, in an order that depends on the rank, they would deadlock.
/// Thread:   the World's.
/// Lifetime: ends before the World. Move-only.
/// Cost:     collective over `all`: a split for each group with more than one rank, and one for all others together.
class SINEW_API Mesh {
 public:
  /// groups: axes as Factorisation takes them, such as "tp" or "dp-cp". Empty: every axis alone. `all` stays the
  /// caller's.
  /// Errors: InvalidArgument on all ranks alike, before anything is made. It is thrown if ranks ask for different
  ///         meshes, if shape.ranks() is not all.size(), or if a group names an unknown axis. Otherwise as split.
  Mesh(Communicator& all, Factorisation shape, std::span<const std::string> groups = {}, const CallOptions& = {});

  Mesh(Communicator& all, Factorisation shape, std::initializer_list<std::string> groups, const CallOptions& o = {})
      : Mesh(all, std::move(shape), std::span(groups.begin(), groups.size()), o) {}

  Mesh(Mesh&&) noexcept = default;
  Mesh& operator=(Mesh&&) noexcept = default;

  const Factorisation& shape() const noexcept { return shape_; }
  int rank() const noexcept { return rank_; }
  /// Names a rank of the mesh in an error, as Communicator::rank_text of the mesh's communicator does.
  const std::string& rank_text(int rank) const { return names_.at(static_cast<std::size_t>(rank)); }
  int size(std::string_view axes) const { return shape_.size(axes); }
  int index(std::string_view axes) const { return shape_.index(rank_, axes); }
  /// This rank's group along these axes, in whatever order the string lists them. Its ranks are in the order of
  /// index(axes). Groups of one rank share a communicator.
  /// Errors: InvalidArgument naming the groups that there are.
  Communicator& along(std::string_view axes);
  /// The groups that there are, by their axes. They are equal on all ranks, in the same order.
  std::vector<std::string> groups() const;

 private:
  friend class JobMesh;
  /// For a job that has checked that its ranks agree. `groups` empty: no groups.
  Mesh(GroupMaker& maker, Factorisation shape, std::span<const std::string> groups);
  void make_groups(GroupMaker& maker, std::span<const std::string> groups);

  Factorisation shape_;
  int rank_ = 0;
  std::vector<std::string> names_;                                            // rank_text(), by rank
  std::map<std::string, std::shared_ptr<Communicator>, std::less<>> groups_;  // by axes in the order of the shape
};

}  // namespace sinew::parallel

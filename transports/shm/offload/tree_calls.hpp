#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sinew/transports/shm/model/levels.hpp>
#include <sinew/transports/shm/model/tree.hpp>
#include <sinew/transports/shm/offload/members.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {

/// Runs calls of Protocol::Tree. A rank's announcement carries what its subtree has made. The root's result comes back
/// along the same edges.
class TreeCalls {
 public:
  /// All outlive it.
  TreeCalls(Members& members, const Levels& levels);

  /// Makes the tree for calls with the root of `call`. Later calls with this root cannot fail. Errors: std::bad_alloc.
  void prepare(const PendingCall& call) { static_cast<void>(tree_of(call)); }

  /// Whether all of this rank's subtree has announced the call, so that this rank may announce it.
  bool subtree_is_there(const PendingCall& call);
  /// If the subtree has announced: the first child that has made another call than this rank. -1: there is none.
  int differing_child(const PendingCall& call);
  /// The last call that the whole subtree has finished reading, or this rank (`own`) where calls do not go up.
  std::uint64_t done_in_subtree(const PendingCall& call, std::uint64_t own);
  /// Writes what the subtree has made into this rank's announcement.
  void show(const PendingCall& call, Slot& slot);

  /// Has what this rank waits for come down?
  bool result_is_there(const PendingCall& call);
  /// If the result has come: the parent, if it has made another call than this rank. -1: it has made the same one.
  int differing_parent(const PendingCall& call);
  /// Takes the result that has come and passes it on. `own_done`: the last call that this rank has finished reading.
  void finish(const PendingCall& call, std::uint64_t own_done);

 private:
  const Tree& tree_of(const PendingCall& call);
  void take_result(const PendingCall& call, const std::byte* made) const noexcept;
  void pass_on(const PendingCall& call, const Tree& tree, const std::byte* from, std::uint64_t all_done);

  Members& members_;
  const Levels& levels_;
  std::vector<std::optional<Tree>> trees_;  // by root, once used
  std::vector<const void*> sources_;
};

}  // namespace sinew::shm

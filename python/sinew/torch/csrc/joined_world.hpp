#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <sinew/collectives/world.hpp>

namespace sinew::torch_backend {

/// What tells a World from all others, on all its ranks.
using WorldId = std::array<std::byte, 16>;

/// A World that process groups of this process share. It ends when the last of them lets go of it.
class JoinedWorld {
 public:
  /// Makes the World known to all_joined().
  /// `global_rank`: this rank's number among all processes of the job, as torch counts them.
  static std::shared_ptr<JoinedWorld> make(const WorldId& id, World world, int global_rank);

  const WorldId& id() const noexcept { return id_; }
  int global_rank() const noexcept { return global_rank_; }
  World& world() noexcept { return world_; }
  /// Its ranks may make groups of it: nothing is wrong with it, and this process made it.
  bool serves() const;

  /// The Worlds of this process, the oldest first. Each is there until the pointer goes.
  static std::vector<std::shared_ptr<JoinedWorld>> all();

 private:
  JoinedWorld(const WorldId& id, World world, int global_rank);

  const WorldId id_;
  World world_;
  const int global_rank_;
  const pid_t process_;
};

}  // namespace sinew::torch_backend

#pragma once

#include <memory>
#include <vector>

#include <sinew/core/base/exchange.hpp>

#include "joined_world.hpp"

namespace sinew::torch_backend {

/// Where a new process group is to be: within a World that all its members are in, or in a new World of exactly these.
struct WorldChoice {
  WorldId world{};         ///< which one; of a new World its future id
  std::vector<int> ranks;  ///< the members' ranks in it; empty: it is a new World
  Bytes secret;            ///< of a new World

  bool is_new() const noexcept { return ranks.empty(); }
};

namespace world_choice {

/// The Worlds that this member may offer for a group: each has one place for it.
std::vector<std::shared_ptr<JoinedWorld>> offered_by(int global_rank);

// As bytes, for the members' meeting.
Bytes offer(const std::vector<std::shared_ptr<JoinedWorld>>& worlds);
/// Rank 0's choice: the first World it offers itself in which every member has a place of its own.
Bytes decide(const std::vector<Bytes>& offers);
WorldChoice read(const Bytes& decision);

}  // namespace world_choice
}  // namespace sinew::torch_backend

#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// Errors: InvalidArgument if a routing has another number of experts, or of experts for each token.
template <class T>
void require_routing(const Routing<T>& routing, const std::string& name, std::int64_t experts, std::int64_t top_k) {
  const auto places = static_cast<std::size_t>(routing.tokens * top_k);
  if (routing.tokens < 0 || routing.top_k != top_k || routing.experts.size() != places ||
      routing.gates.size() != places)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': a routing of {} tokens to {} experts each with {} places and {} gates, expected {} "
                            "experts each",
                            name, routing.tokens, routing.top_k, routing.experts.size(), routing.gates.size(), top_k));
  for (std::size_t i = 0; i < places; ++i) {
    const std::int32_t expert = routing.experts[i];
    if (expert != kNoExpert && (expert < 0 || expert >= experts))
      throw Error(Code::InvalidArgument, fmt::format("'{}': token {} goes to expert {}, expected 0 to {}", name,
                                                     static_cast<std::int64_t>(i) / top_k, expert, experts - 1));
  }
}

/// Errors: InvalidArgument if there is not a position for each token, or if sequences have no tokens.
inline void require_positions(const TokenPositions& where, std::int64_t tokens, const std::string& name) {
  const auto all = static_cast<std::size_t>(tokens);
  if (where.length < 1 || where.sequences < 1 || where.sequence.size() != all || where.position.size() != all)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': {} sequences of {} tokens, with {} and {} places for {} tokens here; expected 1 or "
                            "more of each, and a place for every token",
                            name, where.sequences, where.length, where.sequence.size(), where.position.size(), tokens));
}

}  // namespace sinew::parallel

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/selection/transport_sets.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

/// The name of the offload that composes calls on device memory of several hosts (collectives/device_hierarchy).
inline constexpr std::string_view kDeviceHierarchy = "device_hierarchy";

/// An offload that one communicator has.
struct NamedOffload {
  std::string transport;
  std::unique_ptr<CollectiveOffload> offload;
};

/// A candidate for one call, and what runs if it is chosen.
struct Option {
  Candidate candidate;
  NamedOffload* offload = nullptr;
  std::optional<Recipe> recipe{};
  const TransportSet* transports = nullptr;
  bool staged = false;        ///< device memory goes through the host
  bool whole = false;         ///< its chunks cannot be cut
  std::uint64_t scratch = 0;  ///< bytes beside the user's buffers, if not cut
  double messages = 1e9;      ///< sent and received by the ranks that were looked at; as given: unknown
};

}  // namespace sinew

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sinew/core/fabric.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// What a message between two ranks would take, by its route.
CostCurve cost_of_route(const Network& network, int from, int to);

/// Another fabric's rails, whose probes answer for the links of an imagined cluster. What each peer is sent is counted
/// in `sent`, by rank, when it is posted; both outlive the fabric.
/// Thread: `sent` is written by the thread that drives this rank, and by no other.
class ImaginedFabric final : public Fabric {
 public:
  ImaginedFabric(std::unique_ptr<Fabric> carrier, const Network& network, int rank, std::span<std::uint64_t> sent);
  std::span<const std::unique_ptr<Transport>> transports() override { return rails_; }
  Outlet outlet() const override { return {.text = {}, .is_nearest = true}; }

 private:
  std::unique_ptr<Fabric> carrier_;
  std::vector<std::unique_ptr<Transport>> rails_;
};

}  // namespace sinew

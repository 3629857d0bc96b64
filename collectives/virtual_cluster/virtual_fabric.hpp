#pragma once

#include <memory>
#include <span>
#include <vector>

#include <sinew/core/fabric.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// The rails of another fabric, with probes that return the costs of a virtual cluster's links.
/// Lifetime: the network outlives the fabric.
class VirtualFabric final : public Fabric {
 public:
  VirtualFabric(std::unique_ptr<Fabric> carrier, const Network& network, int rank);
  std::span<const std::unique_ptr<Transport>> transports() override { return rails_; }
  NicChoice nic_choice() const override { return {.text = {}, .is_nearest = true}; }

 private:
  std::unique_ptr<Fabric> carrier_;
  std::vector<std::unique_ptr<Transport>> rails_;
};

}  // namespace sinew

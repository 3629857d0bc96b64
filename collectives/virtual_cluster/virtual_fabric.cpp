#include <cstring>

#include <sinew/collectives/simulator/network_costs.hpp>
#include <sinew/collectives/virtual_cluster/virtual_fabric.hpp>

namespace sinew {
namespace {

/// An address: the carrier's, and the rank behind it.
constexpr std::size_t kRankBytes = sizeof(std::int32_t);

Address with_rank(Address address, std::int32_t rank) {
  address.resize(address.size() + kRankBytes);
  std::memcpy(address.data() + address.size() - kRankBytes, &rank, kRankBytes);
  return address;
}

std::int32_t rank_in(const Address& address) {
  std::int32_t rank = 0;
  std::memcpy(&rank, address.data() + address.size() - kRankBytes, kRankBytes);
  return rank;
}

Address without_rank(Address address) {
  address.resize(address.size() - kRankBytes);
  return address;
}

class VirtualRail final : public Transport {
 public:
  VirtualRail(Transport& carrier, const Network& network, int rank)
      : carrier_(carrier), network_(network), rank_(rank) {}

  std::string_view name() const noexcept override { return carrier_.name(); }
  const Capabilities& capabilities() const noexcept override { return carrier_.capabilities(); }
  Address address() const override { return with_rank(carrier_.address(), rank_); }
  Reach probe(const Address& peer) override {
    Reach reach = carrier_.probe(without_rank(peer));
    if (!reach.ok) return reach;
    reach.cost = NetworkCosts(network_).link(rank_, rank_in(peer)).alone;
    reach.resource = name_of(network_.route(rank_, rank_in(peer)).back().tier);
    return reach;
  }
  std::unique_ptr<Endpoint> connect(const Address& peer) override { return carrier_.connect(without_rank(peer)); }

  int progress() noexcept override { return carrier_.progress(); }
  bool active() const noexcept override { return carrier_.active(); }
  int wake_descriptor() const noexcept override { return carrier_.wake_descriptor(); }
  bool arm() noexcept override { return carrier_.arm(); }
  void disarm() noexcept override { carrier_.disarm(); }

 private:
  Transport& carrier_;
  const Network& network_;
  int rank_;
};

}  // namespace

VirtualFabric::VirtualFabric(std::unique_ptr<Fabric> carrier, const Network& network, int rank)
    : carrier_(std::move(carrier)) {
  for (const auto& rail : carrier_->transports()) rails_.push_back(std::make_unique<VirtualRail>(*rail, network, rank));
}

}  // namespace sinew

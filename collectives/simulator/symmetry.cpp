#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/simulator/symmetry.hpp>

namespace sinew {
namespace {

bool can(Shift how, int count) {
  if (how == Shift::None) return true;
  return count > 1 && (how == Shift::Cyclic || std::has_single_bit(static_cast<unsigned>(count)));
}

}  // namespace

Symmetry::Symmetry(const Network& network, Shift blocks, int hosts_per_block, Shift places)
    : network_(&network),
      blocks_(blocks),
      hosts_per_block_(hosts_per_block),
      places_(places),
      shifts_of_blocks_(blocks == Shift::None ? 1 : network.hosts / hosts_per_block),
      shifts_of_places_(places == Shift::None ? 1 : network.ranks_per_host),
      alike_(shifts_of_blocks_ * shifts_of_places_),
      leaves_per_block_(hosts_per_block % network.hosts_per_leaf == 0 ? hosts_per_block / network.hosts_per_leaf : 0),
      exact_(finds_same_links()) {}

Symmetry::Symmetry(const Network& network, std::shared_ptr<const Kinds> by) : Symmetry(none(network)) {
  by_ = std::move(by);
  alike_ = network.ranks() / kinds();
}

int Symmetry::alike_to(int rank) const noexcept {
  return by_ ? by_->size[static_cast<std::size_t>(kind_of(rank))] : alike_;
}

bool Symmetry::finds_same_links() const noexcept {
  if (!leaves_shift() || network_->count(Tier::LeafUp) == 1) return true;
  if (network_->form == NetworkForm::FatTree) return leaves_per_block_ > 0;
  return network_->nics_per_host == network_->ranks_per_host;
}

std::vector<Symmetry> Symmetry::all_of(const Network& network) {
  if (!network.ranks_on.empty()) return {none(network)};
  std::vector<Symmetry> all;
  const auto add = [&](int hosts_per_block, std::initializer_list<Shift> of_blocks) {
    if (network.hosts % hosts_per_block != 0) return;
    for (const Shift places : {Shift::Cyclic, Shift::Flip, Shift::None}) {
      // NICs that ranks share, or that only some have, must be the same for all.
      const bool equal = network.nic_by_place.empty() && network.ranks_per_host % network.nics_per_host == 0;
      if (places != Shift::None && !equal) continue;
      for (const Shift blocks : of_blocks) {
        if (blocks == Shift::None && places == Shift::None) continue;
        if (can(blocks, network.hosts / hosts_per_block) && can(places, network.ranks_per_host))
          all.emplace_back(network, blocks, hosts_per_block, places);
      }
    }
  };
  add(1, {Shift::Cyclic, Shift::Flip});
  if (network.form == NetworkForm::FatTree && network.hosts_per_leaf > 1)
    add(network.hosts_per_leaf, {Shift::Cyclic, Shift::Flip});
  add(network.hosts, {Shift::None});
  all.push_back(none(network));
  std::ranges::stable_sort(all, std::less<>(), &Symmetry::kinds);
  return all;
}

std::string Symmetry::describe() const {
  if (by_)
    return fmt::format("{} of {} ranks simulated, each for all that behave as it does", kinds(), network_->ranks());
  if (alike_ == 1) return "every rank simulated";
  return fmt::format("{} of {} ranks simulated, each for {} that behave alike", kinds(), network_->ranks(), alike_);
}

int Symmetry::first_of(int kind) const noexcept {
  if (by_) return by_->first[static_cast<std::size_t>(kind)];
  if (alike_ == 1) return kind;
  const int places = network_->ranks_per_host / shifts_of_places_;
  return kind / places * network_->ranks_per_host + kind % places;
}

int Symmetry::kind_of(int rank) const noexcept {
  if (by_) return by_->of_rank[static_cast<std::size_t>(rank)];
  if (alike_ == 1) return rank;
  const int host = network_->host_of(rank), place = network_->place_of(rank);
  const int places = network_->ranks_per_host / shifts_of_places_;
  return (blocks_ == Shift::None ? host : host % hosts_per_block_) * places + (places_ == Shift::None ? place : 0);
}

std::vector<int> Symmetry::samples(int kind) const {
  const int first = first_of(kind), host = network_->host_of(first), place = network_->place_of(first);
  const auto at = [&](int blocks, int places) {
    return (blocks * hosts_per_block_ + host) * network_->ranks_per_host + place + places;
  };
  if (alike_ == 1) return {};
  return {at(std::min(1, shifts_of_blocks_ - 1), std::min(1, shifts_of_places_ - 1)),
          at(shifts_of_blocks_ - 1, shifts_of_places_ - 1)};
}

/// What comes to be 0 when `by` does, takes `what` along.
int Symmetry::shifted(Shift how, int count, int by, int what) noexcept {
  switch (how) {
    case Shift::None: return what;
    case Shift::Cyclic: return (what - by + count) % count;
    case Shift::Flip: return what ^ by;
  }
  return what;
}

int Symmetry::seen_from(int rank, int other) const noexcept {
  if (alike_ == 1) return other;
  const int host = network_->host_of(other);
  const int block =
      shifted(blocks_, shifts_of_blocks_, network_->host_of(rank) / hosts_per_block_, host / hosts_per_block_);
  const int place = shifted(places_, shifts_of_places_, network_->place_of(rank), network_->place_of(other));
  return (block * hosts_per_block_ + host % hosts_per_block_) * network_->ranks_per_host + place;
}

double Symmetry::crossing(int from, int to) const {
  const Network& n = *network_;
  const auto leaf = [&](int block, int place, int rank) {
    const int host = n.host_of(rank);
    const int at = shifted(blocks_, shifts_of_blocks_, block, host / hosts_per_block_) * hosts_per_block_ +
                   host % hosts_per_block_;
    return n.leaf_of(at, n.nic_of_place(shifted(places_, shifts_of_places_, place, n.place_of(rank))));
  };
  const bool by_host = n.form == NetworkForm::FatTree, by_place = n.form == NetworkForm::RailOptimised;
  const int blocks = by_host ? shifts_of_blocks_ : 1, places = by_place ? shifts_of_places_ : 1;
  int crossing = 0;
  for (int block = 0; block < blocks; ++block) {
    for (int place = 0; place < places; ++place) crossing += leaf(block, place, from) != leaf(block, place, to) ? 1 : 0;
  }
  return static_cast<double>(crossing) / (blocks * places);
}

/// Whether leaf switches become each other.
bool Symmetry::leaves_shift() const noexcept {
  if (network_->form == NetworkForm::FatTree) return blocks_ != Shift::None;
  return network_->form == NetworkForm::RailOptimised && places_ != Shift::None;
}

NetworkLink Symmetry::first_like(const NetworkLink& link) const noexcept {
  const auto host = [&](int h) {
    if (by_) return by_->first_host[static_cast<std::size_t>(by_->of_host[static_cast<std::size_t>(h)])];
    return blocks_ == Shift::None ? h : h % hosts_per_block_;
  };
  switch (link.tier) {
    case Tier::RankOut:
    case Tier::RankIn:
    case Tier::PciOut:
    case Tier::PciIn: return {link.tier, first_of(kind_of(link.index))};
    case Tier::Memory: return {link.tier, host(link.index)};
    case Tier::NicOut:
    case Tier::NicIn: {
      if (by_ && network_->nic_for_each_rank()) return {link.tier, first_of(kind_of(link.index))};
      const int nics = network_->nics_per_host, nic = link.index % nics;
      return {link.tier, host(link.index / nics) * nics + (places_ == Shift::None ? nic : 0)};
    }
    case Tier::LeafUp:
    case Tier::LeafDown: {
      if (!leaves_shift()) return link;
      return {link.tier, of_whole_leaves() ? link.index % leaves_per_block_ : 0};
    }
  }
  return link;
}

int Symmetry::links_like(const NetworkLink& link) const noexcept {
  if (by_) {
    const auto hosts_like = [&](int h) {
      return by_->hosts[static_cast<std::size_t>(by_->of_host[static_cast<std::size_t>(h)])];
    };
    switch (link.tier) {
      case Tier::RankOut:
      case Tier::RankIn:
      case Tier::PciOut:
      case Tier::PciIn: return alike_to(link.index);
      case Tier::Memory: return hosts_like(link.index);
      case Tier::NicOut:
      case Tier::NicIn:
        return network_->nic_for_each_rank() ? alike_to(link.index) : hosts_like(link.index / network_->nics_per_host);
      case Tier::LeafUp:
      case Tier::LeafDown: return 1;
    }
  }
  switch (link.tier) {
    case Tier::RankOut:
    case Tier::RankIn:
    case Tier::PciOut:
    case Tier::PciIn: return alike_;
    case Tier::Memory: return shifts_of_blocks_;
    case Tier::NicOut:
    case Tier::NicIn: return shifts_of_blocks_ * (places_ == Shift::None ? 1 : network_->nics_per_host);
    case Tier::LeafUp:
    case Tier::LeafDown: {
      if (!leaves_shift()) return 1;
      return of_whole_leaves() ? shifts_of_blocks_ : network_->count(link.tier);
    }
  }
  return 1;
}

}  // namespace sinew

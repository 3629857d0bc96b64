#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/buddy_copies.hpp>
#include <sinew/parallel/checkpoint/packed_places.hpp>
#include <sinew/parallel/checkpoint/save_plan.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/reshard/gathered_facts.hpp>

namespace sinew::parallel {
namespace {

/// The label of the calls in errors.
constexpr const char* kBuddyLabel = "buddy copies";
constexpr std::uint32_t kBuddyTag = 0x42554459;

std::size_t bytes_of(const PartDescription& part) { return bytes_of(part.item, part.extent); }

/// Returns whether the message has arrived.
bool ended_well(Work work) noexcept {
  try {
    work.get();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<int> choose_buddies(const std::vector<int>& hosts) {
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return hosts[at(rank)]; });
  std::size_t most = 0;  // ranks of one host
  for (const int host : hosts) most = std::max(most, static_cast<std::size_t>(std::ranges::count(hosts, host)));
  // Ranks of a host are neighbours in this order. A step as long as the largest host leaves each host.
  const std::size_t step = most == hosts.size() ? 1 : most;
  std::vector<int> buddies(hosts.size());
  for (std::size_t i = 0; i < order.size(); ++i) buddies[at(order[i])] = order[(i + step) % order.size()];
  return buddies;
}

void BuddyCopies::Copy::lay_out(const std::vector<PartDescription>& described) {
  state.step = -1;
  PackedPlaces places;
  std::vector<std::size_t> begins;
  for (const PartDescription& part : described) begins.push_back(places.add(bytes_of(part)));
  memory.resize(places.bytes());
  parts.clear();
  for (std::size_t i = 0; i < described.size(); ++i)
    parts.push_back({described[i].item, described[i].extent, {memory.data() + begins[i], bytes_of(described[i])}});
}

void BuddyCopies::Copy::complete(const HeldState& of_step) {
  state = of_step;
  state.parts = parts;
}

BuddyCopies::BuddyCopies(CallGroup all) : all_(all) {
  const std::vector<int> buddies = choose_buddies(gather_hosts(all_, kBuddyLabel));
  buddy_ = buddies[at(all_->rank())];
  ward_ = static_cast<int>(std::ranges::find(buddies, all_->rank()) - buddies.begin());
}

BuddyCopies::~BuddyCopies() {
  // The messages use the memory of the copies.
  ended_well(std::move(received_));
  ended_well(std::move(sent_));
}

void BuddyCopies::agree(const HeldState& state) {
  std::vector<PartDescription> parts;
  std::optional<Error> fault;
  try {
    parts = descriptions_of(state.parts);  // checks them
  } catch (const Error& e) {
    fault = e;
  }
  std::array<std::int64_t, 4> facts{state.step, -state.step, parts == own_parts_ ? 0 : 1, fault ? 1 : 0};
  all_->all_reduce(facts, ReduceOp::Max, all_.options(kBuddyLabel)).get();
  if (facts[0] != -facts[1])
    throw Error(Code::InvalidArgument,
                fmt::format("{}: ranks copy steps from {} to {}; expected the same step on all ranks", kBuddyLabel,
                            -facts[1], facts[0]));
  if (facts[3] != 0) {
    on_all_or_none(all_, kBuddyLabel, [&] {
      if (fault) throw *fault;
    });
  }
  if (facts[2] == 0) return;
  kept_parts_ = gather_parts(all_, state.parts, kBuddyLabel)[at(ward_)];
  own_parts_ = std::move(parts);
}

void BuddyCopies::copy(const HeldState& state) {
  if (all_->size() == 1) return;
  finish();
  agree(state);  // by now the last copies of all ranks have arrived, so those before may go
  at_ = 1 - at_;
  Copy& own = own_[at_];
  Copy& kept = kept_[at_];
  own.lay_out(own_parts_);
  kept.lay_out(kept_parts_);
  for (std::size_t i = 0; i < own.parts.size(); ++i) {
    const Buffer& to = own.parts[i].buffer;
    if (to.bytes > 0) std::memcpy(to.data, state.parts[i].buffer.data, to.bytes);
  }
  own.complete(state);
  received_ = all_->recv(Buffer{kept.memory.data(), kept.memory.size()}, ward_, kBuddyTag, all_.options(kBuddyLabel));
  sent_ = all_->send(ConstBuffer{own.memory.data(), own.memory.size()}, buddy_, kBuddyTag, all_.options(kBuddyLabel));
  is_under_way_ = true;
}

void BuddyCopies::finish() {
  if (!std::exchange(is_under_way_, false)) return;
  std::exchange(received_, Work{}).get();
  kept_[at_].complete(own_[at_].state);
  std::exchange(sent_, Work{}).get();
}

std::vector<HeldState> BuddyCopies::held() {
  if (std::exchange(is_under_way_, false) && ended_well(std::exchange(received_, Work{})))
    kept_[at_].complete(own_[at_].state);
  ended_well(std::exchange(sent_, Work{}));
  std::vector<HeldState> states;
  for (const auto* copies : {&own_, &kept_}) {
    for (const Copy& copy : *copies) {
      if (copy.state.step >= 0) states.push_back(copy.state);
    }
  }
  return states;
}

std::size_t BuddyCopies::bytes_of_copy() const noexcept { return own_[at_].memory.size(); }

std::size_t BuddyCopies::memory_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto* copies : {&own_, &kept_}) {
    for (const Copy& copy : *copies) bytes += copy.memory.size();
  }
  return bytes;
}

}  // namespace sinew::parallel

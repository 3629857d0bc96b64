#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/ofi/rails.hpp>

namespace sinew::ofi {

Rails::Rails(std::vector<Info> infos, bool sleeps) {
  for (Info& info : infos) {
    try {
      all_.push_back(std::make_unique<Rail>(std::move(info), sleeps));
    } catch (const Error& e) {
      if (all_.empty()) throw;
      log::debug("ofi: a rail is left out: {}", e.what());
    }
  }
  const auto has_none = [](const auto& rail) { return rail->wake_descriptor() < 0; };
  if (all_.size() < 2 || std::ranges::any_of(all_, has_none)) return;
  sleep_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!sleep_) throw_errno("epoll_create1");
  for (const auto& rail : all_) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(sleep_.get(), EPOLL_CTL_ADD, rail->wake_descriptor(), &event) != 0) throw_errno("epoll_ctl");
  }
}

std::vector<RailName> Rails::further_names() const {
  std::vector<RailName> names;
  for (std::size_t i = 1; i < all_.size(); ++i) {
    names.push_back({all_[i]->info().fabric_attr->name, all_[i]->name()});
  }
  return names;
}

RailsTo Rails::reach(const PeerAddress& self, const PeerAddress& peer) {
  RailsTo to;
  to.rails[0] = {0, first().insert(peer.name)};
  for (const RailPair& pair : rails_between(self, peer)) {
    const auto rail = static_cast<std::uint32_t>(1 + pair.here);
    to.rails[to.count++] = {rail, at(rail).insert(peer.further[pair.there].name)};
  }
  return to;
}

bool Rails::cut_off(const RailsTo& peer) noexcept {
  bool cut = true;
  for (std::uint32_t i = 0; i < peer.count; ++i) {
    if (!at(peer.rails[i].rail).cut_off(peer.rails[i].peer)) cut = false;
  }
  return cut;
}

int Rails::poll() {
  int events = 0;
  for (const auto& rail : all_) events += rail->poll();
  return events;
}

void Rails::close_endpoints() noexcept {
  for (const auto& rail : all_) rail->close_endpoint();
}

int Rails::wake_descriptor() const noexcept {
  if (all_.size() == 1) return first().wake_descriptor();
  return sleep_.get();
}

bool Rails::arm() noexcept {
  for (const auto& rail : all_) {
    if (rail->arm()) continue;
    disarm();
    return false;
  }
  return true;
}

void Rails::disarm() noexcept {
  for (const auto& rail : all_) rail->disarm();
}

}  // namespace sinew::ofi

#include "box.hpp"

#include <sys/epoll.h>

#include <array>
#include <cstring>

#include <sinew/core/error.hpp>

#include "endpoint.hpp"
#include "sockets.hpp"

namespace mailbox {
namespace {

struct Fixed {
  char name[8] = "mailbox";
  std::uint64_t box = 0;
  std::int32_t rank = 0;
  std::uint32_t user = 0;
};

}  // namespace

sinew::Address Where::encode() const {
  Fixed fixed;
  fixed.box = box;
  fixed.rank = rank;
  fixed.user = user;
  sinew::Address bytes(sizeof fixed + host.size());
  std::memcpy(bytes.data(), &fixed, sizeof fixed);
  std::memcpy(bytes.data() + sizeof fixed, host.data(), host.size());
  return bytes;
}

Where Where::decode(const sinew::Address& address) {
  Fixed fixed;
  if (address.size() < sizeof fixed || std::memcmp(address.data(), fixed.name, sizeof fixed.name) != 0) {
    throw sinew::Error(sinew::Code::InvalidArgument, "this is no address of a mailbox");
  }
  std::memcpy(&fixed, address.data(), sizeof fixed);
  return {fixed.box, fixed.rank, fixed.user,
          std::string(reinterpret_cast<const char*>(address.data()) + sizeof fixed, address.size() - sizeof fixed)};
}

Box::Box(Where where, std::uint8_t of_generation)
    : self(std::move(where)),
      generation(of_generation),
      epoll(::epoll_create1(EPOLL_CLOEXEC)),
      listener(listen_at(self.box)),
      piece(std::make_unique<std::byte[]>(kPieceBytes)) {
  epoll_event event{EPOLLIN, {.fd = listener.get()}};
  if (!epoll || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0) {
    sinew::throw_errno("mailbox: epoll");
  }
}

void Box::watch(int descriptor, PeerEndpoint& endpoint) {
  epoll_event event{EPOLLIN, {.fd = descriptor}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) sinew::throw_errno("mailbox: epoll_ctl");
  watched[descriptor] = &endpoint;
}

void Box::want_room(int descriptor, bool for_room) {
  epoll_event event{EPOLLIN | (for_room ? EPOLLOUT : 0U), {.fd = descriptor}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, descriptor, &event) != 0) sinew::throw_errno("mailbox: epoll_ctl");
}

void Box::forget(sinew::FileDescriptor& descriptor) {
  watched.erase(descriptor.get());
  descriptor = sinew::FileDescriptor();
}

void Box::take_visitors() {
  while (std::optional<Visitor> visitor = accept_from(listener.get())) {
    const auto peer = peers.find(visitor->box);
    if (peer != peers.end()) {
      peer->second->attach(std::move(visitor->socket));
    } else {
      early[visitor->box] = std::move(visitor->socket);
    }
  }
}

int Box::poll() {
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == listener.get()) {
      take_visitors();
    } else if (const auto at = watched.find(event.data.fd); at != watched.end()) {
      at->second->ready(event.data.fd, event.events);
    }
  }
  return count > 0 ? count : 0;
}

}  // namespace mailbox

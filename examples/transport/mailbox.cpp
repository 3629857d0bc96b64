// A transport outside of sinew's tree: ranks of one host and user, over UNIX sockets. Read in this order: this file,
// endpoint.hpp and .cpp (the protocol), box.hpp (what waits), sockets.hpp (the wire).
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/module_entry.hpp>

#include "box.hpp"
#include "endpoint.hpp"

namespace mailbox {
namespace {

using sinew::Availability;

/// The one rail of a rank.
class MailboxTransport final : public sinew::Transport {
 public:
  explicit MailboxTransport(const sinew::FabricContext& context)
      : box_({sinew::random_id(), context.rank, ::geteuid(), context.host_id}, context.generation) {
    capabilities_.cancels_sends = true;
  }

  std::string_view name() const noexcept override { return "mailbox"; }
  const sinew::Capabilities& capabilities() const noexcept override { return capabilities_; }
  sinew::Address address() const override { return box_.self.encode(); }

  sinew::Reach probe(const sinew::Address& peer) override {
    try {
      const Where there = Where::decode(peer);
      if (there.host != box_.self.host) return unreachable(there.rank, "on another host");
      if (there.user != box_.self.user) return unreachable(there.rank, "another user's");
      return {true, {}, {5e-6, 15e-6, {{64 << 10, 1e9}, {1 << 20, 2e9}}}, "memory"};
    } catch (const sinew::Error& e) {
      return {false, e.what(), {}, {}};
    }
  }
  std::unique_ptr<sinew::Endpoint> connect(const sinew::Address& peer) override {
    if (const sinew::Reach r = probe(peer); !r.ok) throw sinew::Error(sinew::Code::Unavailable, "mailbox: " + r.reason);
    return std::make_unique<PeerEndpoint>(box_, Where::decode(peer));
  }

  int progress() noexcept override {
    const int events = box_.poll();
    return events + box_.finished.fire();
  }
  bool active() const noexcept override {
    for (const auto& [box, peer] : box_.peers) {
      if (peer->active()) return true;
    }
    return !box_.finished.empty();
  }
  int wake_descriptor() const noexcept override { return box_.epoll.get(); }
  bool arm() noexcept override {
    pollfd waiting{box_.epoll.get(), POLLIN, 0};
    return box_.finished.empty() && ::poll(&waiting, 1, 0) == 0;
  }
  void disarm() noexcept override {}

 private:
  static sinew::Reach unreachable(int rank, std::string_view because) {
    return {false, fmt::format("rank {} is {}", rank, because), {}, {}};
  }

  Box box_;
  sinew::Capabilities capabilities_;
};

class MailboxFabric final : public sinew::Fabric {
 public:
  explicit MailboxFabric(const sinew::FabricContext& context) : rail_{std::make_unique<MailboxTransport>(context)} {}
  std::span<const std::unique_ptr<sinew::Transport>> transports() override { return rail_; }

 private:
  std::unique_ptr<sinew::Transport> rail_[1];
};

class MailboxModule final : public sinew::Module {
 public:
  std::string_view name() const noexcept override { return "mailbox"; }
  Availability available() const override {
    const sinew::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (socket) return Availability::yes();
    return Availability::no("no UNIX sockets here: " + std::generic_category().message(errno));
  }
  std::unique_ptr<sinew::Fabric> open(const sinew::FabricContext& context) override {
    return std::make_unique<MailboxFabric>(context);
  }
};

sinew::Module& module() noexcept {
  static MailboxModule the_module;
  return the_module;
}

}  // namespace
}  // namespace mailbox

SINEW_MODULE(mailbox::module);

#include <sys/socket.h>

#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/transports/tcp/endpoint.hpp>
#include <sinew/transports/tcp/tcp.hpp>

namespace sinew::tcp {
namespace {

/// What is read at once and not kept: fits the caches, and holds any control frame.
constexpr std::size_t kScratchBytes = 256 * 1024;

std::shared_ptr<ListeningPort> open_port(const Config& config) {
  try {
    return port_of_process({.range = config.ports, .tls = config.tls});
  } catch (const Error& e) {
    throw Error(Code::Unavailable, fmt::format("tcp: {}", e.what()));
  }
}

std::vector<InterfaceAddress> addresses_of(const Options& options, std::uint16_t port) {
  if (options.addresses.empty()) return own_addresses(options.config.interface, port);
  std::vector<InterfaceAddress> all = options.addresses;
  for (InterfaceAddress& a : all) a.address = a.address.with_port(port);
  return all;
}

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const Options& options) : shared_{.options = options} {
    if (options.secret.empty()) throw Error(Code::Unavailable, "tcp: the job has no secret to prove connections with");
    shared_.keys = {options.secret, TlsContext::open(options.config.tls)};
    shared_.thread = ControlThread::of_process();
    port_ = open_port(options.config);
    shared_.self = {options.rank, random_id(), options.host_id, addresses_of(options, port_->number()),
                    static_cast<std::uint8_t>(options.config.tcp_streams)};
    shared_.scratch.resize(kScratchBytes);
    capabilities_.cancels_sends = true;
    capabilities_.eager_bytes = options.eager_bytes;
    service_ = port_->serve({.service = kService, .to_rank = options.rank, .instance = shared_.self.instance},
                            options.secret, [this](const AuthClaim& claim, Socket socket) {
                              shared_.mailbox.post([this, claim, s = std::make_shared<Socket>(std::move(socket))] {
                                admit(claim, std::move(*s));
                              });
                            });
  }
  ~TcpTransport() override {
    service_ = {};
    // Waits until the control thread has ended the attempts of closed endpoints, which post into the mailbox.
    shared_.thread->run([] {});
  }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  std::string_view name() const noexcept override { return "tcp"; }
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Address address() const override { return shared_.self.encode(); }
  Reach probe(const Address& peer) override;
  std::unique_ptr<Endpoint> connect(const Address& peer) override;

  int progress() noexcept override {
    const int events = shared_.poller.poll();
    shared_.mailbox.deliver();
    const int fired = shared_.finished.fire();
    shared_.pending -= static_cast<std::size_t>(fired);
    return events + fired;
  }
  bool active() const noexcept override { return shared_.pending != 0; }
  int wake_descriptor() const noexcept override { return shared_.poller.descriptor(); }
  bool arm() noexcept override { return shared_.finished.empty() && !shared_.poller.anything_ready(); }
  void disarm() noexcept override {}

 private:
  struct Parked {
    ChannelClaim claim;
    Socket socket;
  };

  void admit(const AuthClaim& claim, Socket socket);

  Shared shared_;
  Capabilities capabilities_;
  std::map<int, std::array<Parked, kMostChannels>> parked_;  // of peers that this rank has not connected to yet
  std::shared_ptr<ListeningPort> port_;
  ListeningPort::Service service_;
};

Reach TcpTransport::probe(const Address& peer) {
  try {
    const PeerAddress p = PeerAddress::decode(peer);
    const Routes routes = routes_to(p, shared_.self);
    const std::size_t rails = rails_between(shared_.self, p).size();
    if (p.instance == shared_.self.instance) return {false, "a rank does not reach itself over tcp", {}, {}};
    if (rails == 0 && routes.candidates.empty()) return {false, routes.reason, {}, {}};
    if (p.host_id == shared_.self.host_id)
      return {true, {}, {4e-6, 8e-6, {{64 << 10, 2e9}, {1 << 20, 4e9}}}, "loopback"};
    const std::string& interface = shared_.options.config.interface;
    const double bytes_per_s = 1.2e9 * static_cast<double>(std::max<std::size_t>(rails, 1));
    return {true, {}, {5e-6, 30e-6, {{1 << 20, bytes_per_s}}}, interface.empty() ? "network" : interface};
  } catch (const Error& e) {
    return {false, e.what(), {}, {}};
  }
}

std::unique_ptr<Endpoint> TcpTransport::connect(const Address& peer) {
  if (const Reach r = probe(peer); !r.ok) throw Error(Code::Unavailable, "tcp: " + r.reason);
  PeerAddress p = PeerAddress::decode(peer);
  if (shared_.peers.contains(p.rank)) {
    throw Error(Code::InvalidArgument, fmt::format("tcp: rank {} has an endpoint already", p.rank));
  }
  const int rank = p.rank;
  shared_.left.erase(rank);
  auto endpoint = std::make_unique<TcpEndpoint>(shared_, std::move(p));
  if (const auto waiting = parked_.extract(rank); !waiting.empty()) {
    for (Parked& early : waiting.mapped()) {
      if (early.socket && endpoint->link().wants(early.claim))
        endpoint->link().attach(early.claim, std::move(early.socket));
    }
  }
  endpoint->link().dial();
  return endpoint;
}

/// Takes or refuses an authenticated connection, and tells the peer which.
void TcpTransport::admit(const AuthClaim& claim, Socket socket) {
  const int rank = claim.from_rank;
  const ChannelClaim channel = ChannelClaim::decode(claim.channel);
  if (channel.channel >= kMostChannels || rank < 0) {
    return log::debug("tcp: dropped a connection from {}: it asks for channel {} of rank {}",
                      peer_address(socket.get()).text(), channel.channel, rank);
  }
  const auto peer = shared_.peers.find(rank);
  const bool here = peer != shared_.peers.end();
  if (here ? peer->second->closed() : shared_.left.contains(rank)) return say(socket, Consent::Closed);
  if (here && !peer->second->link().wants(channel)) return say(socket, Consent::UseMine);
  say(socket, Consent::Accepted);
  if (here) {
    peer->second->link().attach(channel, std::move(socket));
  } else {
    parked_[rank][channel.channel] = {channel, std::move(socket)};
  }
}

class TcpFabric final : public Fabric {
 public:
  explicit TcpFabric(const Options& options) : rail_{make_transport(options)} {}
  std::span<const std::unique_ptr<Transport>> transports() override { return rail_; }

 private:
  std::unique_ptr<Transport> rail_[1];
};

class TcpModule final : public Module {
 public:
  std::string_view name() const noexcept override { return "tcp"; }
  Availability available() const override { return Availability::yes(); }
  std::unique_ptr<Fabric> open(const FabricContext& c) override {
    return std::make_unique<TcpFabric>(Options{
        .rank = c.rank, .generation = c.generation, .secret = c.secret, .host_id = c.host_id, .config = c.config});
  }
};

}  // namespace

std::unique_ptr<Transport> make_transport(const Options& options) { return std::make_unique<TcpTransport>(options); }

Module& module() {
  static TcpModule m;
  return m;
}

}  // namespace sinew::tcp

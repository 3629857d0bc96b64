#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/net/tls_context.hpp>

namespace sinew {

/// The limits of connections that have not been authenticated. A listening port has so many places for them, and each
/// connection keeps its place for so long, counted from its arrival or its last accepted message. Where all places are
/// taken, the oldest connection that has had `kAtLeast` is served once more and then gives way to the next; before
/// that, new connections wait in the kernel. So a place becomes free 256 times a second, whatever unauthenticated
/// connections do, and a flood of them does not cut short the authentication of a peer: it takes one round trip, under
/// TLS two. An unauthenticated connection uses no memory but its place, under TLS at most 64 KiB: see Authentication
/// and TlsSession.
struct UnauthenticatedLimits {
  static constexpr std::size_t kPlaces = 64;
  static constexpr Duration kAtLeast = std::chrono::milliseconds(250);
  static constexpr Duration kAtMost = std::chrono::seconds(5);
};

/// A TCP port at which a process listens for all its jobs: for the store, the control plane and the data of tcp. The
/// port accepts each connection, limits it (UnauthenticatedLimits), speaks TLS with it if the process uses TLS, and
/// authenticates it by the secret of the service that the hello names. Then it gives the socket to that service. A
/// hello for a service that is not here is refused like a wrong secret.
/// Thread: the loop's, apart from serve() and the end of a Service, which any thread may call.
class SINEW_API ListeningPort {
 public:
  /// Gets an authenticated connection on the loop's thread. It must not block: a service of another thread puts the
  /// connection into a queue and wakes its thread.
  using Take = std::function<void(const AuthClaim& claim, Socket socket)>;

  struct Services;

  /// While it lives, connections for one service are accepted. Once its destructor has returned, `take` is not called
  /// any more. `take` itself may end it.
  class SINEW_API Service {
   public:
    Service() noexcept = default;
    Service(Service&& other) noexcept;
    Service& operator=(Service&& other) noexcept;
    ~Service();

   private:
    friend class ListeningPort;
    struct State;
    explicit Service(std::shared_ptr<State> state) noexcept;
    std::shared_ptr<State> state_;
  };

  /// `tls` null: plain connections. Errors: Error{System}.
  ListeningPort(EventLoop& loop, Listener listener, std::shared_ptr<const TlsContext> tls);
  ~ListeningPort();
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;

  std::uint16_t number() const noexcept { return number_; }

  /// Takes connections whose claim has this `service`, `to_rank` and `instance`, and whose other end knows `secret`.
  /// Errors: Error{InvalidArgument} where the secret is empty or such a service is here already.
  [[nodiscard]] Service serve(const AuthClaim& claim, Bytes secret, Take take);

 private:
  struct Guests;

  std::uint16_t number_;
  std::shared_ptr<Services> services_;
  std::shared_ptr<Guests> guests_;
};

/// What a process asks of its port.
struct PortSettings {
  std::uint16_t number = 0;                                      ///< 0: any
  std::optional<std::pair<std::uint16_t, std::uint16_t>> range;  ///< for any: SINEW_PORTS; nullopt: the kernel chooses
  TlsFiles tls;
};

/// The port of this process, served by the control thread. All Worlds of the process share it, and the first one that
/// asks opens it. A second port is opened only where the settings rule out the ports that are open: another number,
/// another range, other TLS files. A port is closed when the last owner ends.
/// Errors: Error{System} where it cannot listen; Error{InvalidArgument} where a TLS file is not usable.
SINEW_API std::shared_ptr<ListeningPort> port_of_process(const PortSettings& settings);

}  // namespace sinew

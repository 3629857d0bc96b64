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

/// The limits of connections that have not been authenticated. A listening port has `kPlaces` places for them. A
/// connection may keep its place for `kAtMost`, counted from its arrival or its last accepted message. If all places
/// are taken, new connections wait in the kernel until a connection has had its place for `kAtLeast`. That connection
/// is served once more, and then gives way to a new one. So 256 places become free each second, whatever
/// unauthenticated connections do. Authentication takes one round trip, or two under TLS, so a flood of connections
/// does not cut it short. An unauthenticated connection uses no memory but its place, and under TLS at most 64 KiB: see
/// Authentication and TlsSession.
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

  /// As long as this object exists, connections for one service are accepted. After its destructor has returned, `take`
  /// is not called any more. `take` itself may destroy this object.
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

  /// `tls` null: connections are not encrypted. Errors: Error{System}.
  ListeningPort(EventLoop& loop, Listener listener, std::shared_ptr<const TlsContext> tls);
  ~ListeningPort();
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;

  std::uint16_t number() const noexcept { return number_; }

  /// Takes connections whose claim has this `service`, `to_rank` and `instance`, and whose other end knows `secret`.
  /// Errors: Error{InvalidArgument} if the secret is empty or the port has such a service already.
  [[nodiscard]] Service serve(const AuthClaim& claim, Bytes secret, Take take);

  /// Lists the first hosts whose connections spoke this protocol and were not authenticated, each with its latest
  /// reason. Empty if there are none. Thread: any.
  std::string refused() const;

 private:
  struct Guests;

  std::uint16_t number_;
  std::shared_ptr<Services> services_;
  std::shared_ptr<Guests> guests_;
};

/// The port that a process asks for.
struct PortSettings {
  std::uint16_t number = 0;                                      ///< 0: any
  std::optional<std::pair<std::uint16_t, std::uint16_t>> range;  ///< if number is 0: SINEW_PORTS; nullopt: any
  TlsFiles tls;
};

/// The port of this process, served by the control thread. All Worlds of the process share it, and the first one that
/// asks opens it. A second port is opened only if the settings rule out the ports that are open: another number,
/// another range, or other TLS files. A port is closed when its last owner ends.
/// Errors: Error{System} if the process cannot listen. Error{InvalidArgument} if a TLS file is not usable.
SINEW_API std::shared_ptr<ListeningPort> port_of_process(const PortSettings& settings);

}  // namespace sinew

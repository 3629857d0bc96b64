#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/net/tls_context.hpp>

namespace sinew {

/// The keys by which a process authenticates and encrypts its connections.
struct Keys {
  Bytes secret;                           ///< the job's secret
  std::shared_ptr<const TlsContext> tls;  ///< null: connections are not encrypted
};

/// Makes one connection to one service. It connects, speaks TLS if the process uses TLS, authenticates, and waits for
/// the service's consent if the protocol has one. When an attempt has failed, Events::failed decides whether another
/// one follows, on which path and after which pause. A UNIX socket is only connected.
/// Thread: the loop's. The loop calls all events, and start() calls none.
class SINEW_API Dialer {
 public:
  enum class Stage : std::uint8_t { Connecting, Authenticating, Consent };

  /// Why an attempt has failed.
  struct Failure {
    std::size_t path = 0;  ///< the index of the path
    Stage stage = Stage::Connecting;
    int error = 0;        ///< errno; 0: the other side has closed the connection, or `refusal` or `consent` says why
    std::string refusal;  ///< why one side has refused the other; empty: neither has
    std::optional<std::byte> consent;  ///< the byte that the service sent instead of its consent
    bool is_of_job = false;            ///< true if the other side knows the secret or has made a TLS connection
    bool was_late = false;  ///< true if this thread was so late that a listener may have dropped the connection

    /// The failure as text, such as "10.0.0.2:7000: Connection refused".
    std::string text;
  };

  /// The owner's decision: another attempt on `path` after `pause`, or the end with the status `end`.
  struct Next {
    std::size_t path = 0;
    Duration pause{};
    std::optional<Status> end = {};
  };

  static constexpr Duration kConnectWithin = std::chrono::seconds(3);

  struct Options {
    std::vector<Path> paths;  ///< at least one
    std::size_t first = 0;    ///< index of the path of the first attempt
    Keys keys;
    AuthClaim claim;
    std::optional<std::byte> consent = {};           ///< the byte by which the service consents; nullopt: none
    Duration connect_within = kConnectWithin;        ///< else the attempt fails with ETIMEDOUT
    Duration authenticate_within = Duration::max();  ///< likewise, from the latest step of the other side on
  };

  /// Either `connected` or `ended` is called, once. It may destroy the dialer.
  struct Events {
    std::function<void(Socket socket, std::size_t path)> connected;
    std::function<void(const Status& why)> ended;
    std::function<Next(const Failure& failure)> failed;  ///< must not destroy the dialer
    /// Called before this side's proof is sent. Until then the service cannot take the connection. If it returns false,
    /// the attempt fails. Null: the proof is always sent.
    std::function<bool()> may_prove = {};
  };

  Dialer(EventLoop& loop, Options options, Events events);
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  /// Begins the first attempt. Call it once.
  void start();

 private:
  enum class State : std::uint8_t { Idle, Connecting, Authenticating, Consent, Over };

  void dial();
  void ready();
  void authenticate();
  void await_consent();
  void authenticated();
  void succeed();
  void fail(Stage stage, int error, std::string refusal = {}, std::optional<std::byte> consent = {});
  void watch();
  void tick();

  EventLoop& loop_;
  Options options_;
  Events events_;
  std::size_t path_ = 0;
  State state_ = State::Idle;
  Clock::time_point until_ = Clock::time_point::max();  // the time limit of `state_`
  Clock::time_point looked_{};
  bool was_late_ = false;
  std::optional<Authentication> handshake_;
  ProofClock clock_;
  EventLoop::Timer timer_;
  Socket socket_;
  EventLoop::Watch watch_;  // destroyed before the socket that it watches
};

/// Connects as a Dialer does, but the calling thread waits. Returns the connection and the index of its path.
/// Errors: Error with the status by which `failed` has ended the attempts.
SINEW_API std::pair<Socket, std::size_t> dial(Dialer::Options options,
                                              std::function<Dialer::Next(const Dialer::Failure&)> failed);

}  // namespace sinew

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

/// What a process authenticates and encrypts its connections with.
struct Keys {
  Bytes secret;                           ///< the job's
  std::shared_ptr<const TlsContext> tls;  ///< null: plain
};

/// Makes one connection to one service: it connects, speaks TLS where the process uses it, authenticates, and waits for
/// the service's consent where the protocol has one. When an attempt has failed, its owner decides whether another one
/// follows, on which path and after which pause. A UNIX socket is connected and nothing more.
/// Thread: the loop's. Each event comes from the loop, never from within start().
class SINEW_API Dialer {
 public:
  enum class Stage : std::uint8_t { Connecting, Authenticating, Consent };

  /// Why an attempt has ended.
  struct Failure {
    std::size_t path = 0;  ///< its index
    Stage stage = Stage::Connecting;
    int error = 0;        ///< errno; 0: the other side has closed the connection, or `refusal` or `consent` says why
    std::string refusal;  ///< one side has refused the other, and why
    std::optional<std::byte> consent;  ///< what the service said instead of its consent
    bool is_of_job = false;            ///< the other side knows the secret or has made a TLS connection
    bool was_late = false;             ///< this thread was so late once that a full listener may have given up on it

    /// "10.0.0.2:7000: Connection refused"
    std::string text;
  };

  /// The owner's decision: another attempt, or the end with this status.
  struct Next {
    std::size_t path = 0;
    Duration pause{};
    std::optional<Status> end = {};
  };

  struct Options {
    std::vector<Path> paths;  ///< at least one
    std::size_t first = 0;    ///< index of the path of the first attempt
    Keys keys;
    AuthClaim claim;
    std::optional<std::byte> consent = {};              ///< what the service says when it takes the connection
    Duration connect_within = std::chrono::seconds(3);  ///< else the attempt fails with ETIMEDOUT
    Duration authenticate_within = Duration::max();     ///< likewise, counted from each step of the other side
  };

  /// One of `connected` and `ended` is called, once, and may end the dialer.
  struct Events {
    std::function<void(Socket socket, std::size_t path)> connected;
    std::function<void(const Status& why)> ended;
    std::function<Next(const Failure& failure)> failed;  ///< does not end the dialer
    /// Asked before this side's proof is sent, for until then the service cannot take the connection; false: the
    /// attempt fails. Null: true.
    std::function<bool()> may_prove = {};
  };

  Dialer(EventLoop& loop, Options options, Events events);
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  /// Once.
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
  Clock::time_point until_ = Clock::time_point::max();  // of this state
  Clock::time_point looked_{};
  bool was_late_ = false;
  std::optional<Authentication> handshake_;
  ProofClock clock_;
  EventLoop::Timer timer_;
  Socket socket_;
  EventLoop::Watch watch_;  // ends before its socket is closed
};

/// The same for a thread that waits: a loop of its own runs until the end. Returns the connection and its path's index.
/// Errors: Error with the status by which `failed` has ended it.
SINEW_API std::pair<Socket, std::size_t> dial(Dialer::Options options,
                                              std::function<Dialer::Next(const Dialer::Failure&)> failed);

}  // namespace sinew

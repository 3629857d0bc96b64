#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {

/// Tells once what a search has found so far, if the search takes long. Several searches may share a notice.
struct SearchNotice {
  static constexpr Duration kAfter = std::chrono::seconds(20);  ///< whoever waits should know the reason within 30 s

  Clock::time_point at = Clock::time_point::max();       ///< when it is due
  std::function<void(const std::string& findings)> say;  ///< called in the searching thread

  template <class Findings>
  void tell_if_due(const Findings& findings) {
    if (Clock::now() < at) return;
    at = Clock::time_point::max();
    say(findings());
  }
};

/// Finds a server of the job at one of several addresses. Other programs may listen at some of them: a program that
/// does not know the secret, or that says nothing, delays the search by a fifth of a second at most.
/// The first attempt at an address begins when the address before it has failed, or after kStagger. Each address is
/// then tried again and again. The pause between two attempts grows to 50 ms for the first address, and to 50 ms more
/// for each address behind it.
/// Thread: one. next() waits in the calling thread.
class SINEW_API ServerSearch {
 public:
  static constexpr Duration kStagger = std::chrono::milliseconds(200);
  /// A wrong secret and another job at one of the addresses look alike. The search ends when a listener has refused the
  /// secret, and this time later no server of the job has been found.
  static constexpr Duration kDoubt = std::chrono::seconds(15);

  struct Options {
    std::vector<SocketAddress> addresses;  ///< at least one
    Keys keys;
    AuthClaim claim;
    std::function<bool()> may_come{};        ///< false: the server is gone, and the search ends with PeerLost
    std::shared_ptr<SearchNotice> notice{};  ///< null: nobody is told
    std::string found_before{};              ///< by an earlier search, for messages; empty: there was none
  };

  ServerSearch(Options options, Deadline deadline);
  ~ServerSearch();
  ServerSearch(const ServerSearch&) = delete;
  ServerSearch& operator=(const ServerSearch&) = delete;

  /// Returns the next authenticated connection, and the index of its address. A connection to a UNIX socket is not
  /// authenticated.
  /// Errors: Timeout, of rank 0, with what was found at the addresses. Mismatch if all listeners refuse the secret, or
  ///         some do and kDoubt has passed. PeerLost if `may_come` says so.
  std::pair<Socket, std::size_t> next();
  /// Tells why the connection to this address is of no use. `refused`: the listener is of another job or another user.
  void reject(std::size_t address, std::string why, bool refused);

 private:
  struct Attempts;

  void begin(std::size_t address);
  void dial(std::size_t address);
  Dialer::Next after(std::size_t address, const Dialer::Failure& failure);
  void note(std::size_t address, std::string why, bool refused);
  void judge();
  std::string refusals() const;
  std::string findings() const;

  const Options options_;
  const Deadline deadline_;
  EventLoop loop_;
  std::vector<std::unique_ptr<Attempts>> attempts_;
  std::deque<std::pair<Socket, std::size_t>> made_;
  std::optional<Status> end_;
  std::optional<Clock::time_point> refused_since_;
  EventLoop::Timer notice_;
};

}  // namespace sinew

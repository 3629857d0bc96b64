#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew::doctor {

/// The messages of a probe after the authentication. A request is the length of what follows it (u64), at most this
/// many bytes. The answer to a request is one byte.
inline constexpr std::uint64_t kLongestRequest = std::uint64_t{64} << 20;

/// Answers the probes of other hosts. It listens on every interface, with threads of its own, and answers only those
/// who authenticate with the job's secret.
class LinkServer {
 public:
  /// `ports`: as in SINEW_PORTS.
  /// Errors: Error{System} where it cannot listen.
  LinkServer(Bytes secret, std::optional<std::pair<std::uint16_t, std::uint16_t>> ports);
  ~LinkServer();
  LinkServer(const LinkServer&) = delete;
  LinkServer& operator=(const LinkServer&) = delete;

  std::uint16_t port() const noexcept { return listener_.address.port(); }
  /// The claim by which a probe asks for this process, and for no other process with the same address.
  const AuthClaim& claim() const noexcept { return claim_; }

 private:
  struct Guest {
    std::atomic<bool> gone = false;
    std::thread thread;
  };
  void accept_guests();
  void admit(FileDescriptor socket);
  void serve(FileDescriptor socket) const;

  Bytes secret_;
  AuthClaim claim_;
  Listener listener_;
  FileDescriptor stop_;
  std::list<Guest> guests_;
  std::thread thread_;  // accepts; the only one that touches guests_
};

}  // namespace sinew::doctor

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

/// What the two sides of a probe say to each other after the proofs: a request is the length of what follows it (u64,
/// this many bytes at most), the answer to it is one byte.
inline constexpr std::uint64_t kLongestRequest = std::uint64_t{64} << 20;

/// Answers the probes of other hosts: listens on every interface, on threads of its own. Who cannot prove the job's
/// secret is not heard.
class LinkServer {
 public:
  /// `ports`: as SINEW_PORTS. Errors: Error{System} where it cannot listen.
  LinkServer(Bytes secret, std::optional<std::pair<std::uint16_t, std::uint16_t>> ports);
  ~LinkServer();
  LinkServer(const LinkServer&) = delete;
  LinkServer& operator=(const LinkServer&) = delete;

  std::uint16_t port() const noexcept { return listener_.address.port(); }
  /// What a probe claims to want: this process, and nobody else's who has the same address.
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

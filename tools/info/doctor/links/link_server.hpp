#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::doctor {

/// The messages of a probe after the authentication. A request is the length of what follows it (u64), at most this
/// many bytes. The answer to a request is one byte.
inline constexpr std::uint64_t kLongestRequest = std::uint64_t{64} << 20;

/// Answers the probes of other hosts, each on a thread of its own. Probes come to this process's port.
class LinkServer {
 public:
  /// `ports`: as in SINEW_PORTS.
  /// Errors: Error{System} where it cannot listen.
  LinkServer(const Bytes& secret, std::optional<std::pair<std::uint16_t, std::uint16_t>> ports);
  ~LinkServer();
  LinkServer(const LinkServer&) = delete;
  LinkServer& operator=(const LinkServer&) = delete;

  std::uint16_t port() const noexcept { return port_->number(); }
  /// The claim by which a probe asks for this process, and for no other process with the same address.
  const AuthClaim& claim() const noexcept { return claim_; }

 private:
  struct Guest {
    std::atomic<bool> gone = false;
    std::thread thread;
  };
  void admit(Socket socket);
  void serve(Socket socket) const;

  AuthClaim claim_;
  FileDescriptor stop_;
  std::list<Guest> guests_;  // the port's thread alone touches it until service_ has ended
  std::shared_ptr<ListeningPort> port_;
  ListeningPort::Service service_;
};

}  // namespace sinew::doctor

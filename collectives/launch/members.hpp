#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

class HostedStore;

/// The processes of one or several jobs that make a World together, beside the Worlds of their jobs.
struct Members {
  std::string name;               ///< of this World. Worlds that are made at one store have different names
  std::vector<std::string> list;  ///< the member's names in the order of their ranks, such as "trainer 0"
  std::string self;               ///< this process's name in the list
  std::string store;              ///< where the MemberStore is served: "host:port" or "[address]:port"
  Bytes secret;                   ///< of this World alone, not that of a job. At least 16 bytes
};

/// A key-value store at which members meet, served by one process: a member, or any other one.
/// Lifetime: it must live until all members have made their World. The World goes on without it.
/// Thread:   any. It has a thread of its own.
class SINEW_API MemberStore {
 public:
  /// `name`, the number of `members` and `secret` are those of Members. `port` is the TCP port; 0: one of SINEW_PORTS.
  /// Errors: InvalidArgument for a secret of fewer than 16 bytes. System if the port is taken.
  MemberStore(const std::string& name, int members, const Bytes& secret, std::uint16_t port = 0,
              const Config& config = Config::from_environment());
  ~MemberStore();
  MemberStore(const MemberStore&) = delete;
  MemberStore& operator=(const MemberStore&) = delete;

  std::uint16_t port() const noexcept { return port_; }

 private:
  std::unique_ptr<HostedStore> store_;
  std::uint16_t port_ = 0;
};

/// Makes the exchange by which World::create() makes a World of these members. The World and its members' jobs have
/// separate failures: a job that ends or shrinks ends the calls of this World, and no other job. The World's options
/// take the same secret.
/// Errors: InvalidArgument for a list that does not name this process exactly once, for a store without a port, and for
///         a secret of fewer than 16 bytes. Timeout if the store cannot be reached. Mismatch if it refuses the secret.
SINEW_API Exchange exchange_of_members(const Members& members, const Config& config = Config::from_environment());

}  // namespace sinew

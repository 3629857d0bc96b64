#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/launch/protocols/munge.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/server_search.hpp>

namespace sinew {

/// Hands a job's secret to the ranks on other hosts. Each connection gets a credential of MUNGE with the job's name and
/// the secret. Anybody who reaches the port gets a credential, and only a process of this user can open it.
/// Thread: any. It has a thread of its own, because sealing waits for munged.
class SINEW_API SecretOffer {
 public:
  /// Begins. `job` is the name that the ranks ask for.
  SecretOffer(std::shared_ptr<ListeningPort> port, std::shared_ptr<const Munge> munge, const std::string& job,
              Bytes secret);
  ~SecretOffer();
  SecretOffer(const SecretOffer&) = delete;
  SecretOffer& operator=(const SecretOffer&) = delete;
  /// Accepts no more connections.
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Asks at rank 0's addresses for the secret of the job with this name.
/// Errors: those of ServerSearch.
SINEW_API Bytes ask_for_secret(const std::vector<SocketAddress>& addresses, const Munge& munge, const std::string& job,
                               const Config& config, std::shared_ptr<SearchNotice> notice = {});

}  // namespace sinew

#include "worlds.hpp"

#include <cstdlib>
#include <exception>
#include <utility>

#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/secret.hpp>

#include "store_exchange.hpp"

namespace sinew::torch_backend {
namespace {

/// A process group with a World of its own.
class OwnWorld final : public Members {
 public:
  explicit OwnWorld(World world) : world_(std::move(world)) {}
  Communicator& communicator() noexcept override { return world_.communicator(); }

 private:
  World world_;
};

/// Users of Gloo name the network interface by GLOO_SOCKET_IFNAME, which may be a list of names with commas.
std::string interface_for_gloo() {
  const char* names = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string all = names == nullptr ? "" : names;
  return all.substr(0, all.find(','));
}

WorldOptions options_for(const Membership& membership) {
  WorldOptions options;
  options.threads = Threads::Multiple;
  options.config.timeout = membership.timeout;
  if (options.config.interface.empty()) options.config.interface = interface_for_gloo();
  if (!options.config.secret_file.empty()) options.secret = secret_from_file(options.config.secret_file);
  return options;
}

}  // namespace

namespace worlds {

std::unique_ptr<Members> join(const Membership& membership) {
  WorldOptions options = options_for(membership);
  if (membership.size == 1) return std::make_unique<OwnWorld>(World::create(exchange_alone(), std::move(options)));
  StoreExchange meeting(membership.store, membership.rank, membership.size, membership.timeout);
  try {
    meeting.meet();
    if (options.secret.empty()) options.secret = meeting.secret();
    auto members = std::make_unique<OwnWorld>(World::create(meeting.exchange(), std::move(options)));
    meeting.leave();
    return members;
  } catch (const std::exception& e) {
    meeting.tell_failure(e.what());
    throw;
  }
}

}  // namespace worlds
}  // namespace sinew::torch_backend

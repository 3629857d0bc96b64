#include "worlds.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/secret.hpp>

#include "call_site.hpp"
#include "joined_world.hpp"
#include "store_exchange.hpp"
#include "world_choice.hpp"

namespace sinew::torch_backend {
namespace {

/// In huge pages where that pays.
Memory allocate_in(World& world, std::size_t bytes) { return world.allocate(bytes, bytes >= std::size_t{2} << 20); }

/// The group that a World was made for.
class OfWholeWorld final : public Members {
 public:
  explicit OfWholeWorld(std::shared_ptr<JoinedWorld> joined) : joined_(std::move(joined)) {}
  Communicator& communicator() override { return joined_->world().communicator(); }
  Memory allocate(std::size_t bytes) override { return allocate_in(joined_->world(), bytes); }

 private:
  const std::shared_ptr<JoinedWorld> joined_;
};

/// A group within a World that was made for another one.
class OfSomeRanks final : public Members {
 public:
  OfSomeRanks(std::shared_ptr<JoinedWorld> joined, Communicator communicator)
      : joined_(std::move(joined)), communicator_(std::move(communicator)) {}
  Communicator& communicator() override { return communicator_; }
  Memory allocate(std::size_t bytes) override { return allocate_in(joined_->world(), bytes); }

 private:
  const std::shared_ptr<JoinedWorld> joined_;
  Communicator communicator_;
};

/// Users of Gloo name the network interfaces by GLOO_SOCKET_IFNAME, with commas between, as in SINEW_INTERFACE.
std::string interfaces_for_gloo() {
  const char* names = std::getenv("GLOO_SOCKET_IFNAME");
  return names == nullptr ? "" : names;
}

WorldOptions options_for(const Membership& membership) {
  WorldOptions options;
  options.threads = Threads::Multiple;
  options.config.timeout = membership.timeout;
  options.device = membership.device;
  call_site::wanted_at_each_call.store(options.config.python_sites, std::memory_order_relaxed);
  if (options.config.interface.empty()) options.config.interface = interfaces_for_gloo();
  if (!options.config.secret_file.empty()) options.secret = secret_from_file(options.config.secret_file);
  return options;
}

/// `first`: this process is in no World yet. A later World is made for a group, and measures nothing.
std::unique_ptr<Members> whole(const WorldChoice& choice, Exchange exchange, const Membership& membership, bool first) {
  WorldOptions options = options_for(membership);
  options.measures = first;
  if (options.secret.empty()) {
    options.secret = choice.secret;
    if (options.config.tls.wanted && membership.rank == 0) {
      log::warning(
          "SINEW_TLS=1 without SINEW_SECRET_FILE: the job's secret went through PyTorch's store, which does not "
          "encrypt it; expected the same SINEW_SECRET_FILE on all hosts");
    }
  }
  World world = World::create(std::move(exchange), std::move(options));
  return std::make_unique<OfWholeWorld>(JoinedWorld::make(choice.world, std::move(world), membership.global_rank()));
}

std::unique_ptr<Members> within(const std::shared_ptr<JoinedWorld>& joined, const std::vector<int>& ranks,
                                const Membership& membership) {
  return std::make_unique<OfSomeRanks>(
      joined, joined->world().subgroup(ranks, "process group " + membership.name, Deadline::after(membership.timeout)));
}

std::shared_ptr<JoinedWorld> find(const std::vector<std::shared_ptr<JoinedWorld>>& offered, const WorldId& id) {
  const auto joined = std::ranges::find(offered, id, [](const auto& j) { return j->id(); });
  if (joined != offered.end()) return *joined;
  throw Error(Code::Aborted,
              "start-up: rank 0 chose a World that this process is not in: it was started again meanwhile; make the "
              "process group again, on all its ranks");
}

}  // namespace

namespace worlds {

std::unique_ptr<Members> join(const Membership& membership) {
  const auto offered = world_choice::offered_by(membership.global_rank());
  if (membership.size == 1) {
    if (!offered.empty()) return within(offered.front(), {offered.front()->world().rank()}, membership);
    return whole(world_choice::read(world_choice::decide({world_choice::offer({})})), exchange_alone(), membership,
                 true);
  }
  StoreExchange meeting(membership.store, membership.rank, membership.size, membership.timeout);
  try {
    const WorldChoice choice = world_choice::read(meeting.meet(world_choice::offer(offered), world_choice::decide));
    std::unique_ptr<Members> members;
    if (choice.is_new()) {
      members = whole(choice, meeting.exchange(), membership, offered.empty());
    } else {
      members = within(find(offered, choice.world), choice.ranks, membership);
    }
    meeting.leave();
    return members;
  } catch (const std::exception& e) {
    meeting.tell_failure(e.what());
    throw;
  }
}

}  // namespace worlds
}  // namespace sinew::torch_backend

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/store/relay_search.hpp>

namespace sinew {
namespace {

/// A parent was there when the server of the store named it, so it answers soon or never.
constexpr Duration kReachWithin = std::chrono::seconds(5);
constexpr int kMostParents = 8;

}  // namespace

std::pair<Socket, RelayParent> find_relay_parent(const StoreClient::Options& root, RelayIntroduction self,
                                                 Deadline deadline) {
  for (int tries = 1;; ++tries) {
    auto [socket, place] = StoreClient::attach(root, self, deadline);
    if (place.addresses.empty()) return {std::move(socket), place};
    StoreClient::Options parent = root;
    parent.addresses = parse_addresses(place.addresses);
    parent.instance = place.instance;
    parent.may_come = {};
    self.number = place.number;
    try {
      const Deadline soon(std::min(deadline.at(), Clock::now() + kReachWithin));
      return {StoreClient::attach(std::move(parent), self, soon).first, place};
    } catch (const Error& e) {
      if (tries == kMostParents || deadline.passed())
        throw Error(
            e.code(),
            fmt::format("{} does not reach {}, which leads it to the store: {}", self.name(), place.name, e.what()),
            place.rank);
      log::info("{} does not reach {}: {}", self.name(), place.name, e.what());
      self.unreachable = place.parent;
    }
  }
}

}  // namespace sinew

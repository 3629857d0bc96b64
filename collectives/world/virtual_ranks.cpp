#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

bool is_aftermath(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    return e.code() == Code::PeerLost || e.code() == Code::Timeout;
  } catch (...) {
    return false;
  }
}

/// Of all ranks' failures the one to tell.
class Reason {
 public:
  void add(const std::exception_ptr& failure) {
    const std::scoped_lock lock(mutex_);
    if (!first_ || (is_aftermath(first_) && !is_aftermath(failure))) first_ = failure;
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

void run_virtual_ranks(std::shared_ptr<const VirtualWorld> on, WorldOptions options,
                       const std::function<void(World&)>& body) {
  const int ranks = on->on.network.ranks();
  options.virtual_world = std::move(on);
  options.count_sent = true;
  Reason reason;
  std::vector<std::jthread> threads;  // joined even if there is no thread for the next rank
  for (const Exchange& exchange : thread_exchanges(ranks, options.config.timeout)) {
    threads.emplace_back([&, exchange] {
      try {
        World world = World::create(exchange, options);
        body(world);
      } catch (...) {
        reason.add(std::current_exception());
      }
    });
  }
  threads.clear();
  reason.rethrow();
}

}  // namespace sinew

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <sinew/core/log.hpp>
#include <sinew/core/system/thread_without_signals.hpp>
#include <sinew/transports/nccl/endings.hpp>

namespace sinew::nccl {
namespace {

/// How long a look at a communicator that is being finished waits for the next.
constexpr auto kLookAgain = std::chrono::milliseconds(1);

/// How long an abort takes at most, where it ends at all.
constexpr auto kAbortsWithin = std::chrono::seconds(10);

/// true: it has come to its end, and only its memory is left.
bool finalized(const Api& api, Comm comm, Deadline deadline) {
  Result state = api.comm_finalize(comm);
  while (state == Result::InProgress && !deadline.passed()) {
    std::this_thread::sleep_for(kLookAgain);
    if (const Result asked = api.comm_get_async_error(comm, &state); asked != Result::Success) return false;
  }
  return state == Result::Success;
}

}  // namespace

struct Endings::Running {
  std::mutex mutex;
  std::condition_variable ended;
  int count = 0;
};

Endings::Endings(const Api& api, Duration timeout)
    : api_(api), timeout_(timeout), running_(std::make_shared<Running>()) {}

Endings::~Endings() {
  std::unique_lock lock(running_->mutex);
  if (running_->ended.wait_for(lock, timeout_ + kAbortsWithin, [this] { return running_->count == 0; })) return;
  log::warning("NCCL: {} communicators do not come to their end: they are left behind", running_->count);
}

void Endings::start(std::function<void()> body) {
  {
    const std::scoped_lock lock(running_->mutex);
    ++running_->count;
  }
  const auto run = [running = running_, body = std::move(body)] {
    body();
    // Notified under the lock: its owner may end the process as soon as it knows.
    const std::scoped_lock lock(running->mutex);
    --running->count;
    running->ended.notify_all();
  };
  try {
    thread_without_signals(run).detach();
  } catch (const std::system_error&) {
    run();  // no more threads here: better late than never
  }
}

Endings::Done Endings::abort(Comm comm, std::vector<std::shared_ptr<const void>> used) {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  start([api = api_, comm, done, used = std::move(used)] {
    static_cast<void>(api.comm_abort(comm));  // nothing is left to be done where it fails
    done->store(true, std::memory_order_release);
  });
  return done;
}

Endings::Done Endings::finish(Comm comm) {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  start([api = api_, comm, done, timeout = timeout_] {
    const bool fine = finalized(api, comm, Deadline::after(timeout));
    static_cast<void>(fine ? api.comm_destroy(comm) : api.comm_abort(comm));
    done->store(true, std::memory_order_release);
  });
  return done;
}

}  // namespace sinew::nccl

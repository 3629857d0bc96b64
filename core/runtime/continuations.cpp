#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/runtime/continuations.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

constexpr auto kEndsAfterIdle = std::chrono::seconds(1);

}  // namespace

struct Continuations::State {
  std::mutex mutex;
  std::condition_variable posted;
  std::condition_variable returned;
  std::deque<std::function<void()>> waiting;
  std::vector<std::thread> ended;  ///< threads that have left, to be joined
  std::vector<std::thread> threads;
  std::size_t idle = 0;
  bool over = false;

  /// Body of a thread, which may outlive the object if the object's end comes from a function.
  static void loop(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    for (;;) {
      ++state->idle;
      const auto called = [&] { return !state->waiting.empty() || state->over; };
      const bool in_time = state->posted.wait_for(lock, kEndsAfterIdle, called);
      --state->idle;
      if (!state->waiting.empty()) {
        std::function<void()> run = std::move(state->waiting.front());
        state->waiting.pop_front();
        lock.unlock();
        run();
        run = nullptr;  // what the function holds may call post() when it goes
        lock.lock();
      } else if (state->over || (!in_time && state->threads.size() > 1)) {
        return state->leave();
      }
    }
  }

  // Under the mutex:

  void add_thread(const std::shared_ptr<State>& self) {
    threads.push_back(thread_without_signals([self] { loop(self); }));
  }
  std::vector<std::thread>::iterator this_thread() {
    return std::ranges::find(threads, std::this_thread::get_id(), &std::thread::get_id);
  }
  void leave() {
    const auto self = this_thread();
    if (self == threads.end()) return;
    ended.push_back(std::move(*self));
    threads.erase(self);
    returned.notify_all();
  }
};

Continuations::Continuations() : state_(std::make_shared<State>()) {
  try {
    const std::scoped_lock lock(state_->mutex);
    state_->add_thread(state_);
  } catch (const std::system_error& e) {
    throw Error(Code::System, fmt::format("no thread for the functions of Work::then: {}", e.what()));
  }
}

Continuations::~Continuations() {
  std::vector<std::thread> ended;
  {
    std::unique_lock lock(state_->mutex);
    state_->over = true;
    state_->posted.notify_all();
    const auto self = state_->this_thread();
    if (self != state_->threads.end()) {
      self->detach();
      state_->threads.erase(self);
    }
    state_->returned.wait(lock, [this] { return state_->threads.empty(); });
    ended.swap(state_->ended);
  }
  for (std::thread& t : ended) t.join();
}

void Continuations::post(std::function<void()> run) {
  const std::shared_ptr<State> state = state_;  // the function may end this object before post() returns
  std::vector<std::thread> ended;
  {
    const std::scoped_lock lock(state->mutex);
    if (state->idle <= state->waiting.size()) {
      try {
        state->add_thread(state);
      } catch (const std::system_error& e) {
        log::warning("a function of Work::then waits for another one to return: {}", e.what());
      }
    }
    state->waiting.push_back(std::move(run));
    ended.swap(state->ended);
  }
  state->posted.notify_one();
  for (std::thread& t : ended) t.join();
}

}  // namespace sinew

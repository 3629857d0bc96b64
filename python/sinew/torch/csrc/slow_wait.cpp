#include <torch/csrc/python_headers.h>
// Python's header comes first.
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

#include "call_site.hpp"
#include "slow_wait.hpp"

namespace sinew::torch_backend {
namespace {

class SiteFinder {
 public:
  struct Wait {
    WorkList* works;
    bool began_here;
    unsigned long thread;  ///< as Python counts threads
  };

  /// That of this process: after a fork the child has one without a thread.
  static SiteFinder& get() {
    static SiteFinder* finder = nullptr;
    static pid_t process = 0;
    const ProcessLock lock(OfProcess::Bindings);
    if (process != ::getpid()) {
      finder = new SiteFinder;  // never destroyed: threads may still wait while the process ends
      process = ::getpid();
    }
    return *finder;
  }

  std::uint64_t add(const Wait& wait) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = ++last_;
    waits_.emplace(number, wait);
    unnamed_.insert(number);
    if (!thread_.joinable() && !ended_) thread_ = thread_without_signals([this] { loop(); });
    changed_.notify_one();
    return number;
  }
  void remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    waits_.erase(number);
    unnamed_.erase(number);
  }
  void end_thread() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (unnamed_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const std::uint64_t number = *unnamed_.begin();
      unnamed_.erase(unnamed_.begin());
      const unsigned long thread = waits_.at(number).thread;
      lock.unlock();
      const std::optional<std::string> site = call_site::of_thread(thread);
      lock.lock();
      // The wait has not ended, so the thread has stood there all the time.
      if (const auto wait = waits_.find(number); site && wait != waits_.end()) name(wait->second, *site);
    }
  }

  static void name(const Wait& wait, const std::string& site) {
    for (Work& work : *wait.works) work.name_site(wait.began_here ? site : "the wait in " + site);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Wait> waits_;
  std::set<std::uint64_t> unnamed_;
  std::uint64_t last_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

SlowWait::SlowWait(WorkList& works, bool began_here) {
  if (call_site::wanted_at_each_call.load(std::memory_order_relaxed) || Py_IsInitialized() == 0) return;
  number_ = SiteFinder::get().add({&works, began_here, PyThread_get_thread_ident()});
}

SlowWait::~SlowWait() {
  if (number_ != 0) SiteFinder::get().remove(number_);
}

void SlowWait::end_thread() { SiteFinder::get().end_thread(); }

}  // namespace sinew::torch_backend

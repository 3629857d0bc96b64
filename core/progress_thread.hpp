#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <sinew/core/engine.hpp>
#include <sinew/core/export.hpp>
#include <sinew/core/file_descriptor.hpp>
#include <sinew/core/progress_source.hpp>

namespace sinew {

/// Calls handed from the user's thread to the one that drives the engine.
class SINEW_API CallQueue : public ProgressSource {
 public:
  CallQueue();

  void post(std::function<void()> call);

  int progress() noexcept override;
  bool active() const noexcept override { return waiting_.load(std::memory_order_acquire); }
  int wake_descriptor() const noexcept override { return event_.get(); }
  bool arm() noexcept override { return !active(); }
  void disarm() noexcept override;

 private:
  FileDescriptor event_;
  std::atomic<bool> waiting_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> calls_;
};

/// The opt-in thread that makes progress while the user computes. Blocks all signals; ends with the object.
class SINEW_API ProgressThread {
 public:
  explicit ProgressThread(Engine& engine);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void post(std::function<void()> call) { queue_.post(std::move(call)); }
  /// Runs the call on the thread and waits for its end; what it throws is thrown here.
  void run(const std::function<void()>& call);

 private:
  void loop();

  Engine& engine_;
  CallQueue queue_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace sinew

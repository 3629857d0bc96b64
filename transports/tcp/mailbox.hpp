#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/tcp/poller.hpp>

namespace sinew::tcp {

/// Calls that the control thread leaves for the thread that makes the transport's progress. A call wakes that thread if
/// it sleeps on the poller.
class Mailbox final : Handler {
 public:
  using Call = std::function<void()>;

  explicit Mailbox(Poller& poller);
  ~Mailbox();

  /// Thread: any.
  void post(Call call);
  /// Makes the calls that are in the mailbox, if the poller has reported some. The socket events of the same poll are
  /// handled before this, because a peer that connects anew has closed its last connection before.
  void deliver() {
    if (full_) make_calls();
  }

 private:
  void ready(bool, bool) override { full_ = true; }
  void make_calls();

  Poller& poller_;
  FileDescriptor wake_;
  std::mutex mutex_;
  std::vector<Call> calls_;
  bool full_ = false;
};

}  // namespace sinew::tcp

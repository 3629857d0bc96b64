#pragma once

namespace sinew::test {

/// While it lives nothing can be added to any epoll of this process: its user has no watch left
/// (fs.epoll.max_user_watches).
class FullEpoll {
 public:
  FullEpoll();
  ~FullEpoll();
  FullEpoll(const FullEpoll&) = delete;
  FullEpoll& operator=(const FullEpoll&) = delete;
  /// So often was something refused meanwhile. Thread: any.
  int refused() const;
};

}  // namespace sinew::test

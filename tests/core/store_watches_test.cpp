// A store whose user has no epoll watch left: fs.epoll.max_user_watches, one number for all its processes.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include <fakes/full_epoll.hpp>

#include "served_store.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;

/// What comes first; 0: the end.
ssize_t first_bytes(int socket) {
  pollfd wait{socket, POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 60000), 1);
  std::array<std::byte, 256> in;
  return ::recv(socket, in.data(), in.size(), MSG_DONTWAIT);
}

TEST_F(ServedStore, ConnectionsThatCannotBeWatched_AreDropped_AndMayComeAgain) {
  for (Served* store : {&served, &local}) {
    {
      const FullEpoll full;
      const auto [socket, error] = try_connect({store->address}, Deadline::after(kLong));
      ASSERT_EQ(error, 0);
      EXPECT_EQ(first_bytes(socket.get()), 0);
      EXPECT_EQ(full.refused(), 1);
    }
    const auto client = store->handle(0, 1);
    client->set("k", bytes_of("v"));
    EXPECT_EQ(client->get("k"), bytes_of("v"));
  }
}

/// While it lives this process opens no more descriptors.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const FileDescriptor next(::dup(STDIN_FILENO));
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// A listener whose connections cannot be taken is left alone for a while. It stays in epoll meanwhile, and needs no
/// other watch to be heard again.
TEST_F(ServedStore, ListenerThatFindsNoDescriptor_IsTriedLater) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    const NoDescriptorLeft none;  // what comes waits in the kernel
    const FullEpoll full;
    ASSERT_EQ(::connect(socket.get(), local.address.data(), local.address.length()), 0);
    std::this_thread::sleep_for(250ms);  // two looks and more
    EXPECT_EQ(full.refused(), 0);
  }
  EXPECT_GT(first_bytes(socket.get()), 0) << "no welcome";
}

}  // namespace
}  // namespace sinew::test

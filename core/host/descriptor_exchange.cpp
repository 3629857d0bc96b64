#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/descriptor_exchange.hpp>

namespace sinew {
namespace {

constexpr std::size_t kRanksPerMessage = 64;  // the kernel takes 253 descriptors in one message
constexpr std::size_t kMostDescriptors = kRanksPerMessage * kDescriptorsPerRank;

std::string random_name() {
  std::array<std::uint64_t, 2> bits{};
  fill_random(std::as_writable_bytes(std::span(bits)));
  return fmt::format("sinew-{:016x}{:016x}", bits[0], bits[1]);
}

std::tuple<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero byte: no file
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

FileDescriptor unix_socket() {
  FileDescriptor s(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) throw_errno("socket(AF_UNIX) for passing descriptors between the ranks of this host");
  return s;
}

bool same_user(int socket) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

/// false: the deadline passed.
bool wait_for(int socket, short events, Deadline deadline) {
  pollfd entry{socket, events, 0};
  while (true) {
    const int ready = poll(&entry, 1, deadline.left_ms(60'000));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll on the descriptor socket");
    if (ready == 0 && deadline.passed()) return false;
  }
}

struct Envelope {
  std::uint32_t index = 0;  ///< of the first rank whose descriptors follow
  std::uint32_t ranks = 0;
};

bool send_sets(int socket, std::uint32_t index, std::span<const DescriptorSet> sets) noexcept {
  Envelope envelope{index, static_cast<std::uint32_t>(sets.size())};
  std::array<int, kMostDescriptors> fds{};
  std::size_t count = 0;
  for (const DescriptorSet& set : sets) {
    for (const FileDescriptor& fd : set) fds[count++] = fd.get();
  }
  iovec body{&envelope, sizeof envelope};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fds)> control{};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof envelope);
}

struct Received {
  bool ok = false;
  bool table_full = false;  ///< this process can hold no more descriptors
  std::uint32_t index = 0;
  std::vector<DescriptorSet> sets;
};

Received receive_sets(int socket) {
  Envelope envelope{};
  iovec body{&envelope, sizeof envelope};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  Received received;
  if (got < 0) return received;

  std::vector<FileDescriptor> fds;  // taken into ownership before anything is judged
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  received.table_full = cut && fds.size() < kMostDescriptors;
  if (got != static_cast<ssize_t>(sizeof envelope) || cut || fds.size() != envelope.ranks * kDescriptorsPerRank)
    return received;
  received.ok = true;
  received.index = envelope.index;
  received.sets.resize(envelope.ranks);
  for (std::size_t i = 0; i < fds.size(); ++i)
    received.sets[i / kDescriptorsPerRank][i % kDescriptorsPerRank] = std::move(fds[i]);
  return received;
}

constexpr int kCheckEveryMs = 20;

/// The leader's side of one run.
class Leader {
 public:
  Leader(int listener, std::span<const int> ranks, Deadline deadline, const std::function<void()>& check)
      : listener_(listener),
        ranks_(ranks),
        deadline_(deadline),
        check_(check),
        members_(ranks.size()),
        sets_(ranks.size()) {}

  std::vector<DescriptorSet> run(const DescriptorSet& mine) {
    take(0, mine);
    for (std::size_t missing = ranks_.size() - 1; missing > 0;) missing -= next_event();
    for (std::size_t m = 1; m < members_.size(); ++m) give_all_to(m);
    return std::move(sets_);
  }

 private:
  void take(std::size_t index, const DescriptorSet& set) {
    for (std::size_t i = 0; i < kDescriptorsPerRank; ++i) {
      sets_[index][i] = FileDescriptor(::dup(set[i].get()));
      if (!sets_[index][i]) refused(errno);
    }
  }

  /// Waits for a connection or a first message; returns how many members it brought.
  std::size_t next_event() {
    std::vector<pollfd> entries{{listener_, POLLIN, 0}};
    for (const FileDescriptor& s : silent_) entries.push_back({s.get(), POLLIN, 0});
    const int ready = poll(entries.data(), entries.size(), deadline_.left_ms(check_ ? kCheckEveryMs : 60'000));
    if (ready < 0 && errno != EINTR) throw_errno("poll on the descriptor socket");
    const std::size_t came = ready > 0 ? serve(entries) : 0;
    if (came > 0) return came;
    if (check_) check_();
    if (deadline_.passed()) throw Error(Code::Timeout, absent());
    return 0;
  }

  std::size_t serve(std::span<const pollfd> entries) {
    std::size_t came = 0;
    std::vector<FileDescriptor> still_silent;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) {
        still_silent.push_back(std::move(silent_[i - 1]));
      } else {
        came += meet(std::move(silent_[i - 1]));
      }
    }
    silent_ = std::move(still_silent);
    if (entries[0].revents != 0) {
      FileDescriptor s(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!s && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) refused(errno);
      if (s && same_user(s.get())) silent_.push_back(std::move(s));
    }
    return came;
  }

  [[noreturn]] void refused(int error) const {
    if (error != EMFILE && error != ENFILE) throw_errno("meeting the ranks of this host", error);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    throw Error(
        Code::System,
        fmt::format("meeting the ranks of this host: rank {} can open no more descriptors ({}): {} ranks need {} "
                    "besides those it has, {} each while they meet, and RLIMIT_NOFILE is {}; see ulimit -n",
                    ranks_[0], std::strerror(error), ranks_.size(), ranks_.size() * (kDescriptorsPerRank + 1),
                    kDescriptorsPerRank + 1, limit.rlim_cur),
        ranks_[0]);
  }

  std::size_t meet(FileDescriptor socket) {
    Received hello = receive_sets(socket.get());
    if (hello.table_full) refused(EMFILE);
    if (!hello.ok || hello.sets.size() != 1 || hello.index >= members_.size() || hello.index == 0 ||
        members_[hello.index])
      return 0;  // a stranger: forget it
    sets_[hello.index] = std::move(hello.sets[0]);
    members_[hello.index] = std::move(socket);
    return 1;
  }

  void give_all_to(std::size_t member) {
    const int socket = members_[member].get();
    const std::span<const DescriptorSet> all(sets_);
    for (std::size_t first = 0; first < all.size(); first += kRanksPerMessage) {
      const std::size_t count = std::min(kRanksPerMessage, all.size() - first);
      // One message in flight at a time: the kernel counts descriptors in flight against RLIMIT_NOFILE.
      std::byte acknowledged{};
      if (!send_sets(socket, static_cast<std::uint32_t>(first), all.subspan(first, count)) ||
          !wait_for(socket, POLLIN, deadline_) || ::recv(socket, &acknowledged, 1, 0) != 1)
        throw Error(Code::System,
                    fmt::format("passing descriptors to rank {}: it took none (it may have ended)", ranks_[member]));
    }
  }

  std::string absent() const {
    std::string list;
    for (std::size_t m = 1; m < members_.size(); ++m) {
      if (!members_[m]) list += fmt::format("{}{}", list.empty() ? "" : ", ", ranks_[m]);
    }
    return fmt::format("meeting the ranks of this host: rank {} waited for rank(s) {}, which did not come", ranks_[0],
                       list);
  }

  int listener_;
  std::span<const int> ranks_;
  Deadline deadline_;
  const std::function<void()>& check_;
  std::vector<FileDescriptor> silent_;   // connected, have not said who they are
  std::vector<FileDescriptor> members_;  // by index; [0] unused
  std::vector<DescriptorSet> sets_;
};

}  // namespace

DescriptorExchange::DescriptorExchange() : name_(random_name()), listener_(unix_socket()) {
  const auto [address, length] = abstract_address(name_);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0)
    throw_errno("listening on an abstract UNIX socket for the ranks of this host");
}

std::vector<DescriptorSet> DescriptorExchange::lead(std::span<const int> ranks, const DescriptorSet& mine,
                                                    Deadline deadline, const std::function<void()>& check) {
  const FileDescriptor listener = std::move(listener_);  // ends with this, however: nobody is left in its queue
  return Leader(listener.get(), ranks, deadline, check).run(mine);
}

std::vector<DescriptorSet> DescriptorExchange::follow(const std::string& leader_name, std::span<const int> ranks,
                                                      std::size_t index, const DescriptorSet& mine, Deadline deadline) {
  const FileDescriptor socket = unix_socket();
  const auto [address, length] = abstract_address(leader_name);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno != EAGAIN && errno != EINTR)
      throw_errno(fmt::format("connecting to rank {} of this host for its descriptors", ranks[0]));
    if (deadline.passed())
      throw Error(Code::Timeout, fmt::format("rank {} did not accept rank {}", ranks[0], ranks[index]), ranks[0]);
    ::usleep(1000);  // the leader's queue is full
  }
  if (!same_user(socket.get()))
    throw Error(Code::System, fmt::format("the socket of rank {} belongs to another user", ranks[0]), ranks[0]);
  if (!send_sets(socket.get(), static_cast<std::uint32_t>(index), {&mine, 1}))
    throw_errno(fmt::format("passing descriptors to rank {}", ranks[0]));

  std::vector<DescriptorSet> all(ranks.size());
  for (std::size_t have = 0; have < all.size();) {
    if (!wait_for(socket.get(), POLLIN, deadline))
      throw Error(Code::Timeout, fmt::format("rank {} did not pass its descriptors on", ranks[0]), ranks[0]);
    Received part = receive_sets(socket.get());
    if (!part.ok || part.index != have || part.sets.empty() || part.sets.size() > all.size() - have)
      throw Error(Code::System,
                  fmt::format("rank {} closed its socket before all descriptors had come (or this process may open no "
                              "more: RLIMIT_NOFILE)",
                              ranks[0]),
                  ranks[0]);
    std::ranges::move(part.sets, all.begin() + static_cast<std::ptrdiff_t>(have));
    have += part.sets.size();
    const std::byte acknowledged{};
    if (::send(socket.get(), &acknowledged, 1, MSG_NOSIGNAL) != 1)
      throw_errno(fmt::format("acknowledging descriptors to rank {}", ranks[0]));
  }
  return all;
}

}  // namespace sinew

#include <sys/epoll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <sinew/collectives/control/life_lines.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/net/stream_socket.hpp>

namespace sinew {
namespace {

constexpr auto kLineAttempt = std::chrono::seconds(2);

/// Holds the socket's open file like a descriptor does, but belongs to the memory of this process. Null: refused.
void* mapping_of(int socket) noexcept {
  void* mapping = ::mmap(nullptr, page_bytes(), PROT_READ, MAP_SHARED, socket, 0);
  if (mapping == MAP_FAILED) return nullptr;
  if (::madvise(mapping, page_bytes(), MADV_DONTFORK) == 0) return mapping;
  ::munmap(mapping, page_bytes());
  return nullptr;
}

}  // namespace

LifeLine::LifeLine(int peer, Socket socket)
    : peer_(peer), mapping_(mapping_of(socket.get())), socket_(std::move(socket)) {}

void LifeLine::let_go_of_descriptor() noexcept {
  if (mapping_ != nullptr) socket_ = Socket();
}

LifeLine::~LifeLine() {
  if (mapping_ != nullptr) ::munmap(mapping_, page_bytes());
}

LifeLines::LifeLines(ControlThread& thread, Ended ended)
    : thread_(thread), ended_(std::move(ended)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_errno("epoll for life lines");
  thread_.watch(epoll_.get(), {.read = true}, [this] { look(); });
}

LifeLines::~LifeLines() { thread_.unwatch(epoll_.get()); }

bool LifeLines::has(int world_rank) const {
  return std::ranges::any_of(lines_, [&](const auto& l) { return l.second.peer() == world_rank; });
}

bool LifeLines::has_or_tries(int world_rank) const { return has(world_rank) || attempts_.contains(world_rank); }

void LifeLines::connect(const SocketAddress& to, const Keys& keys, const AuthClaim& claim) {
  const int rank = claim.to_rank;
  auto attempt = std::make_unique<Dialer>(
      thread_.loop(),
      Dialer::Options{.paths = {{to}},
                      .keys = keys,
                      .claim = claim,
                      .connect_within = kLineAttempt,
                      .authenticate_within = kLineAttempt},
      Dialer::Events{
          .connected =
              [this, rank](Socket socket, std::size_t) {
                attempts_.erase(rank);
                keep(rank, std::move(socket));
              },
          .ended = [this, rank](const Status&) { attempts_.erase(rank); },
          .failed = [](const Dialer::Failure& f) { return Dialer::Next{.end = Status(Code::PeerLost, f.text)}; }});
  attempt->start();
  attempts_[rank] = std::move(attempt);
}

void LifeLines::keep(int world_rank, Socket socket) {
  keep_alive(socket.get(), true);
  end_if_unanswered(socket.get(), true);
  epoll_event event{};
  // Once per change: a file that a child still holds could not be taken out of epoll without a descriptor of ours.
  event.events = EPOLLRDHUP | EPOLLET;
  event.data.u64 = ++last_number_;
  const int descriptor = socket.get();
  LifeLine& line = lines_.try_emplace(last_number_, world_rank, std::move(socket)).first->second;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno("watching a life line");
  line.let_go_of_descriptor();
}

void LifeLines::look() {
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    changed(event.data.u64, event.events);
  }
}

/// A FIN comes from a kernel that is there and closes what a process held. Anything else is the network's.
void LifeLines::changed(std::uint64_t number, std::uint32_t events) {
  const auto line = lines_.find(number);
  if (line == lines_.end()) return;
  const int rank = line->second.peer();
  const bool by_process = (events & EPOLLRDHUP) != 0 && (events & EPOLLERR) == 0;
  lines_.erase(line);
  if (by_process && !has(rank)) ended_(rank);
}

}  // namespace sinew

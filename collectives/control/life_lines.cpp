#include <sys/epoll.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <sinew/collectives/control/life_lines.hpp>
#include <sinew/core/host/cpu.hpp>

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

LifeLine::LifeLine(std::unique_ptr<HostLink> proven)
    : peer_(proven->peer()), mapping_(mapping_of(proven->descriptor())), link_(std::move(proven)) {}

void LifeLine::let_go_of_descriptor() noexcept {
  if (mapping_ != nullptr) link_.reset();
}

LifeLine::~LifeLine() {
  if (mapping_ != nullptr) ::munmap(mapping_, page_bytes());
}

LifeLines::LifeLines(ControlThread& thread, Ended ended) : thread_(thread), ended_(std::move(ended)) {}

LifeLines::~LifeLines() {
  for (const auto& a : attempts_) thread_.unwatch(a->descriptor());
  for (const LifeLine& l : lines_) thread_.unwatch_file(l.watch);
}

bool LifeLines::has(int world_rank) const {
  return std::ranges::any_of(lines_, [&](const LifeLine& l) { return l.peer() == world_rank; });
}

bool LifeLines::has_or_tries(int world_rank) const {
  return has(world_rank) || std::ranges::any_of(attempts_, [&](const auto& a) { return a->peer() == world_rank; });
}

void LifeLines::connect(const SocketAddress& to, const LinkKeys& keys, const AuthClaim& claim) {
  HostLink* attempt = attempts_.emplace_back(HostLink::connect(to, keys, claim)).get();
  if (attempt->state() == HostLink::State::Closed) {
    attempts_.pop_back();
    return;
  }
  thread_.watch(attempt->descriptor(), attempt->events(), [this, attempt](std::uint32_t) { serve(attempt); });
}

void LifeLines::drop_late_attempts() {
  std::erase_if(attempts_, [&](const auto& a) {
    const bool late = Clock::now() - a->since() > kLineAttempt;
    if (late) thread_.unwatch(a->descriptor());
    return late;
  });
}

void LifeLines::serve(HostLink* attempt) {
  attempt->serve([](LinkFrame, std::span<const std::byte>) {});
  const bool open = attempt->state() == HostLink::State::Open && !attempt->wants_write();
  if (!open && attempt->state() != HostLink::State::Closed) {
    return thread_.change(attempt->descriptor(), attempt->events());
  }
  thread_.unwatch(attempt->descriptor());
  const auto at = std::ranges::find(attempts_, attempt, &std::unique_ptr<HostLink>::get);
  std::unique_ptr<HostLink> taken = std::move(*at);
  attempts_.erase(at);
  if (open) keep(std::move(taken));
}

void LifeLines::keep(std::unique_ptr<HostLink> proven) {
  const int descriptor = proven->descriptor();
  LifeLine& line = lines_.emplace_back(std::move(proven));
  // Once per change: a file that a child still holds could not be taken out of epoll without a descriptor of ours.
  line.watch = thread_.watch_file(descriptor, EPOLLRDHUP | EPOLLET,
                                  [this, l = &line](std::uint32_t events) { changed(l, events); });
  line.let_go_of_descriptor();
}

/// A FIN comes from a kernel that is there and closes what a process held. Anything else is the network's.
void LifeLines::changed(const LifeLine* line, std::uint32_t events) {
  const int rank = line->peer();
  const bool by_process = (events & EPOLLRDHUP) != 0 && (events & EPOLLERR) == 0;
  thread_.unwatch_file(line->watch);
  lines_.remove_if([line](const LifeLine& l) { return &l == line; });
  if (by_process && !has(rank)) ended_(rank);
}

}  // namespace sinew

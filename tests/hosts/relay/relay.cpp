#include "hosts/relay/relay.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

using Time = Line::Time;

constexpr std::size_t kLongestPacket = 1 << 16;
constexpr int kReadsInARow = 64;  // then packets that are due leave

struct Packet {
  Time due;
  std::vector<std::byte> bytes;
};

std::optional<timespec> time_until(const std::deque<Packet>& waiting) {
  if (waiting.empty()) return std::nullopt;
  const auto left = std::max(waiting.front().due - Line::Time::clock::now(), Time::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const auto rest = std::chrono::nanoseconds(left - seconds);
  return timespec{.tv_sec = static_cast<time_t>(seconds.count()), .tv_nsec = static_cast<long>(rest.count())};
}

}  // namespace

Relay::Relay(int from, int to, const LineOptions& options)
    : from_(from), to_(to), line_(options), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw_errno("eventfd");
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() { stop(); }

void Relay::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void Relay::run() {
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // nanoseconds; else the kernel may wake this thread 50 us late
  std::deque<Packet> waiting;
  std::vector<std::vector<std::byte>> spare;
  std::vector<std::byte> packet(kLongestPacket);
  const auto write_packet = [this](const std::byte* bytes, std::size_t count) {
    // A device that takes nothing drops the packet, as a network card does.
    static_cast<void>(::write(to_, bytes, count) == static_cast<ssize_t>(count));
  };
  for (;;) {
    std::array<pollfd, 2> events{pollfd{from_, POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    const std::optional<timespec> limit = time_until(waiting);
    if (::ppoll(events.data(), events.size(), limit ? &*limit : nullptr, nullptr) < 0 && errno != EINTR) return;
    if (events[1].revents != 0) return;
    for (int reads = 0; reads < kReadsInARow; ++reads) {
      const ssize_t bytes = ::read(from_, packet.data(), packet.size());
      if (bytes <= 0) break;
      const auto count = static_cast<std::size_t>(bytes);
      const Time now = Time::clock::now();
      const std::optional<Time> due = line_.arrival(now, count);
      if (!due) continue;
      if (*due <= now && waiting.empty()) {
        write_packet(packet.data(), count);
        continue;
      }
      if (spare.empty()) spare.emplace_back();
      std::vector<std::byte> kept = std::move(spare.back());
      spare.pop_back();
      kept.assign(packet.data(), packet.data() + count);
      waiting.push_back({*due, std::move(kept)});
    }
    for (const Time now = Time::clock::now(); !waiting.empty() && waiting.front().due <= now;) {
      write_packet(waiting.front().bytes.data(), waiting.front().bytes.size());
      spare.push_back(std::move(waiting.front().bytes));
      waiting.pop_front();
    }
  }
}

}  // namespace sinew::test

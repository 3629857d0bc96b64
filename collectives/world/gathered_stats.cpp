#include <cstring>

#include <fmt/format.h>

#include <sinew/collectives/world/gathered_stats.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// How a rank's bytes begin; then TimedCalls.
struct Header {
  std::uint64_t kept;  ///< 1: the rank times its calls
};

Bytes to_bytes(const std::vector<TimedCall>& calls, bool kept) {
  Bytes bytes(sizeof(Header) + calls.size() * sizeof(TimedCall));
  const Header header{kept ? 1U : 0U};
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!calls.empty()) std::memcpy(bytes.data() + sizeof header, calls.data(), calls.size() * sizeof(TimedCall));
  return bytes;
}

std::vector<TimedCall> calls_from(const Bytes& bytes, const Group& group, int rank) {
  Header header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.kept == 0) {
    throw Error(
        Code::Unavailable,
        fmt::format("stats: {} does not time its calls: set SINEW_STATS=1 on every rank", group.rank_text(rank)), rank);
  }
  std::vector<TimedCall> calls((bytes.size() - sizeof header) / sizeof(TimedCall));
  if (!calls.empty()) std::memcpy(calls.data(), bytes.data() + sizeof header, calls.size() * sizeof(TimedCall));
  return calls;
}

/// Calls begun meanwhile are not counted.
class Uncounted {
 public:
  explicit Uncounted(CommunicatorState& state) noexcept : state_(state) { want(false); }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
  ~Uncounted() { want(true); }

 private:
  void want(bool times) noexcept {
    const auto held = state_.world->hold();
    state_.times_wanted = times;
  }

  CommunicatorState& state_;
};

}  // namespace

CommunicatorStats gather_stats(CommunicatorState& s, const CallOptions& options) {
  std::vector<TimedCall> own;
  const bool kept = s.times != nullptr;
  if (kept) s.world->locked([&] { own = s.times->latest(s.world->timer->clock().ahead_ns); });
  const Uncounted uncounted(s);
  std::vector<std::vector<TimedCall>> everybody;
  for (const Bytes& b : s.exchange(options).all_gather(to_bytes(own, kept))) {
    everybody.push_back(calls_from(b, s.group, static_cast<int>(everybody.size())));
  }
  CommunicatorStats stats;
  s.world->locked([&] { stats.calls = s.times->stats(everybody, s.group.rank); });
  stats.clock_error = static_cast<double>(s.world->timer->clock().worst_error_ns) * 1e-9;
  return stats;
}

}  // namespace sinew

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Rounds of an all-gather between threads: the last to come publishes the round, everybody copies it.
class ThreadRounds {
 public:
  ThreadRounds(int size, Duration timeout)
      : timeout_(timeout), next_(static_cast<std::size_t>(size)), came_(next_.size()) {}

  std::vector<Bytes> all_gather(int rank, const Bytes& mine) {
    std::unique_lock lock(mutex_);
    if (given_up_)
      throw Error(Code::Timeout,
                  fmt::format("start-up exchange: rank {} came after {} had given up", rank, ranks_that(true)));
    const auto me = static_cast<std::size_t>(rank);
    next_[me] = mine;
    came_[me] = true;
    const std::uint64_t round = round_;
    if (std::ranges::all_of(came_, [](bool b) { return b; })) {
      published_ = std::make_shared<const std::vector<Bytes>>(next_);
      std::fill(came_.begin(), came_.end(), false);
      ++round_;
      arrived_.notify_all();
    } else if (!arrived_.wait_for(lock, timeout_, [&] { return round_ != round; })) {
      given_up_ = true;
      throw Error(Code::Timeout, fmt::format("start-up exchange: {} did not come", ranks_that(false)));
    }
    return *published_;
  }

 private:
  /// "rank 1" or "ranks 1, 3": those that came in this round, or those that did not.
  std::string ranks_that(bool came) const {
    std::vector<std::size_t> list;
    for (std::size_t r = 0; r < came_.size(); ++r) {
      if (came_[r] == came) list.push_back(r);
    }
    return fmt::format("{} {}", list.size() == 1 ? "rank" : "ranks", fmt::join(list, ", "));
  }

  const Duration timeout_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Bytes> next_;
  std::vector<bool> came_;
  bool given_up_ = false;  ///< somebody has left: no later round can be complete
  std::uint64_t round_ = 0;
  std::shared_ptr<const std::vector<Bytes>> published_;
};

}  // namespace

std::vector<Exchange> thread_exchanges(int size, Duration timeout) {
  auto rounds = std::make_shared<ThreadRounds>(size, timeout);
  std::vector<Exchange> all;
  all.reserve(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    all.push_back({r, size, [rounds, r](const Bytes& mine) { return rounds->all_gather(r, mine); }});
  }
  return all;
}

Exchange exchange_alone() {
  return {0, 1, [](const Bytes& mine) { return std::vector<Bytes>{mine}; }};
}

Exchange exchange_among(const Exchange& base, std::vector<int> members) {
  const auto self = std::ranges::find(members, base.rank);
  if (self == members.end()) {
    throw Error(Code::InvalidArgument, fmt::format("exchange among ranks {}: expected the caller's own, {}, among them",
                                                   fmt::join(members, ", "), base.rank));
  }
  Exchange e;
  e.rank = static_cast<int>(self - members.begin());
  e.size = static_cast<int>(members.size());
  e.all_gather = [gather = base.all_gather, members = std::move(members)](const Bytes& mine) {
    const std::vector<Bytes> everybody = gather(mine);
    std::vector<Bytes> group;
    for (const int m : members) group.push_back(everybody[static_cast<std::size_t>(m)]);
    return group;
  };
  return e;
}

}  // namespace sinew

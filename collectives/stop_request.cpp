#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/stop_request.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// The state of the only StopRequest, because a signal handler knows no object.
std::atomic<int> first_signal = 0;
std::atomic<bool> is_taken = false;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
}

}  // namespace

struct StopRequest::Before {
  ~Before() {
    for (const auto& [number, action] : actions) ::sigaction(number, &action, nullptr);
    is_taken = false;
  }
  std::vector<std::pair<int, struct sigaction>> actions;
};

StopRequest::StopRequest(std::initializer_list<int> signals) {
  if (is_taken.exchange(true))
    throw Error(Code::InvalidArgument, "StopRequest: another one is there; expected one at a time");
  before_ = std::make_unique<Before>();
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : signals) {
    struct sigaction before {};
    if (::sigaction(number, &action, &before) != 0)
      throw Error(Code::InvalidArgument,
                  fmt::format("StopRequest: signal {} cannot be caught; expected SIGTERM, SIGINT "
                              "or another that can",
                              number));
    before_->actions.emplace_back(number, before);
  }
}

StopRequest::~StopRequest() = default;

int StopRequest::came() const noexcept { return first_signal; }

bool StopRequest::came_to_any(Communicator& all) const {
  std::int32_t any = came() != 0 ? 1 : 0;
  all.all_reduce(std::span(&any, 1), ReduceOp::Max).get();
  return any != 0;
}

}  // namespace sinew

#include <exception>

#include <sinew/collectives/messages/any_receives.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

int AnyReceives::find(const Waiting& receive) {
  for (int i = 0; i < ranks_; ++i) {
    const int rank = (first_ + i) % ranks_;
    if (holds_(rank, receive.message.tag)) return rank;
  }
  return -1;
}

int AnyReceives::progress() noexcept {
  int events = 0;
  for (std::size_t i = 0; i < waiting_.size();) {
    const int rank = end_.ok() ? find(waiting_[i]) : -1;
    if (end_.ok() && rank < 0) {
      ++i;
      continue;
    }
    Waiting receive = waiting_[i];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    ++events;
    if (rank < 0) {
      receive.call->finish(end_);
      continue;
    }
    first_ = (rank + 1) % ranks_;
    receive.call->peer = receive.message.peer = rank;
    try {
      launch_(receive.message, receive.after, *receive.call);
    } catch (const std::exception& e) {
      receive.call->finish(status_of(e));
    }
  }
  return events;
}

bool AnyReceives::arm() noexcept {
  if (!end_.ok()) return waiting_.empty();
  for (const Waiting& receive : waiting_) {
    if (find(receive) >= 0) return false;
  }
  return true;
}

}  // namespace sinew

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/completion.hpp>

namespace sinew {

/// The stages of an operation between send or recv and its completion.
enum class Stage : std::uint8_t {
  Sending,   ///< a send; only the transport knows more
  Posted,    ///< a receive that waits for its message
  Matched,   ///< a receive that has found its message, of which no byte has arrived
  Arriving,  ///< a receive of whose message some bytes have arrived
  Finished,  ///< the status is set; the next progress() fires the completion
};

/// The first member of Completion::transport in every transport that uses the matcher, for sends and receives. cancel()
/// reads the stage here. Queues link operations by `next`, so they allocate nothing.
struct Operation {
  Completion* next = nullptr;
  std::uint32_t handle = 0;  ///< a number for the transport's own use
  Stage stage = Stage::Sending;
};

inline Operation& operation_of(Completion& c) noexcept { return c.as<Operation>(); }

/// A queue of completions linked through their own state.
class CompletionQueue {
 public:
  bool empty() const noexcept { return head_ == nullptr; }
  Completion* front() const noexcept { return head_; }

  void push(Completion& c) noexcept {
    operation_of(c).next = nullptr;
    (head_ ? operation_of(*tail_).next : head_) = &c;
    tail_ = &c;
  }
  void push_front(Completion& c) noexcept {
    operation_of(c).next = head_;
    if (head_ == nullptr) tail_ = &c;
    head_ = &c;
  }
  Completion* pop() noexcept {
    Completion* first = head_;
    if (first != nullptr) head_ = operation_of(*first).next;
    return first;
  }
  /// Returns false if the completion is not in this queue.
  bool remove(Completion& c) noexcept {
    Completion* before = nullptr;
    for (Completion* at = head_; at != nullptr; before = at, at = operation_of(*at).next) {
      if (at == &c) {
        unlink(before, c);
        return true;
      }
    }
    return false;
  }
  /// Removes and returns the first completion for which `wanted` is true, or nullptr.
  template <class Wanted>
  Completion* take_if(Wanted wanted) {
    Completion* before = nullptr;
    for (Completion* at = head_; at != nullptr; before = at, at = operation_of(*at).next) {
      if (wanted(*at)) {
        unlink(before, *at);
        return at;
      }
    }
    return nullptr;
  }

 private:
  void unlink(Completion* before, Completion& c) noexcept {
    (before ? operation_of(*before).next : head_) = operation_of(c).next;
    if (tail_ == &c) tail_ = before;
  }

  Completion* head_ = nullptr;
  Completion* tail_ = nullptr;
};

/// The finished operations of a transport, whose completions have not fired yet. Operations that end inside send, recv,
/// cancel or close are added here. Only progress() calls fire().
class FinishedOperations {
 public:
  void add(Completion& c, Status status) noexcept {
    c.status = std::move(status);
    c.make<Operation>().stage = Stage::Finished;
    queue_.push(c);
  }
  bool empty() const noexcept { return queue_.empty(); }

  /// Fires the completions that are in the queue now and returns how many. A completion that fires may start operations
  /// that end at once and join the queue. They wait for the next call of fire(), so that this call ends.
  int fire() noexcept {
    CompletionQueue now = std::exchange(queue_, {});
    int count = 0;
    while (Completion* c = now.pop()) {
      ++count;
      c->fire(*c);
    }
    return count;
  }

 private:
  CompletionQueue queue_;
};

}  // namespace sinew

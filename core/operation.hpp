#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/completion.hpp>

namespace sinew {

/// Where an operation is on its way from send or recv to firing.
enum class Stage : std::uint8_t {
  Sending,   ///< the transport's
  Posted,    ///< a receive without a message
  Matched,   ///< a receive whose message is known, but of which no byte has come
  Arriving,  ///< a receive that has some of its bytes
  Finished,  ///< decided, waits for progress() to fire it
};

/// What Completion::transport begins with in every transport that uses the matcher, for sends and receives alike, so
/// that cancel() can tell what it was given and a finished operation can be queued without memory of its own.
struct Operation {
  Completion* next = nullptr;
  std::uint32_t handle = 0;  ///< the transport's own
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
  /// false: not in this queue.
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
  /// Takes out the first that `wanted` says yes to; nullptr if there is none.
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

/// Operations that are decided. One per transport: whatever send, recv, cancel and close decide waits here, and
/// progress() is the only caller of fire().
class FinishedOperations {
 public:
  void add(Completion& c, Status status) noexcept {
    c.status = std::move(status);
    c.make<Operation>().stage = Stage::Finished;
    queue_.push(c);
  }
  bool empty() const noexcept { return queue_.empty(); }

  /// Fires what is here now, not what those firing add: a continuation that finishes at once cannot keep this going.
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

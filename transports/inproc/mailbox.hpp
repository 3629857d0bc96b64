#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::inproc {

/// One send, seen by both ranks. Who changes `state` from Waiting decides: the receiver takes it (and reads `from`
/// until it says Settled), or the sender withdraws it.
struct Offer {
  enum class State : std::uint8_t { Waiting, Taken, Withdrawn };

  std::uint32_t number = 0;  // the sender's
  Envelope envelope;
  ConstBuffer from;
  Completion* done = nullptr;  // the sender's alone
  std::atomic<State> state = State::Waiting;
  std::uint64_t expected = 0;  // the receiver's, before Settled: the note of a refused message's receive, 0: fine

  bool decide(State s) noexcept {
    State waiting = State::Waiting;
    return state.compare_exchange_strong(waiting, s);
  }
};

struct Parcel {
  enum class Kind : std::uint8_t { Offered, Withdrawn, Settled, Closed };
  Kind kind;
  std::uint64_t from;  // the mailbox of who put it in
  std::shared_ptr<Offer> offer;
};

/// What other ranks have for one rank. Thread: any may put; the rest is the owner's.
class Mailbox {
 public:
  Mailbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw_errno("inproc: eventfd");
  }
  void put(Parcel parcel) {
    const std::scoped_lock lock(mutex_);
    parcels_.push_back(std::move(parcel));
    if (std::exchange(armed_, false)) ::eventfd_write(event_.get(), 1);
  }
  std::vector<Parcel> take_all() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(parcels_, {});
  }
  int descriptor() const noexcept { return event_.get(); }
  bool arm() {
    const std::scoped_lock lock(mutex_);
    return armed_ = parcels_.empty();
  }
  void disarm() {
    const std::scoped_lock lock(mutex_);
    armed_ = false;
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
  }

 private:
  std::mutex mutex_;
  std::vector<Parcel> parcels_;
  bool armed_ = false;
  FileDescriptor event_;
};

/// The mailboxes of this process by id, each for as long as its owner keeps it here. Thread: any.
class Hub {
 public:
  void open(std::uint64_t id, const std::shared_ptr<Mailbox>& mailbox) {
    const ProcessLock lock(OfProcess::Mailboxes);
    mailboxes_.emplace(id, mailbox);
  }
  void close(std::uint64_t id) {
    const ProcessLock lock(OfProcess::Mailboxes);
    mailboxes_.erase(id);
  }
  /// nullptr: its owner has left.
  std::shared_ptr<Mailbox> find(std::uint64_t id) {
    const ProcessLock lock(OfProcess::Mailboxes);
    const auto at = mailboxes_.find(id);
    return at == mailboxes_.end() ? nullptr : at->second;
  }

 private:
  std::map<std::uint64_t, std::shared_ptr<Mailbox>> mailboxes_;
};

}  // namespace sinew::inproc

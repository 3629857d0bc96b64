#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <sinew/core/work.hpp>

#include "../sinew/csrc/signal_pause.hpp"
#include "buffers.hpp"
#include "python.hpp"
#include "reductions.hpp"
#include "session.hpp"

namespace sinew::python {

/// A call in flight, with all that it uses: arrays, the text of its label, the user's reduction.
/// Lifetime: a Call that goes before it has ended is kept by its Session until it has.
class Call {
 public:
  Call(const char* name, std::shared_ptr<Members> members) noexcept : name_(name), members_(std::move(members)) {}
  Call(Call&&) noexcept = default;
  Call& operator=(Call&&) noexcept = default;
  ~Call();

  const char* name() const noexcept { return name_; }
  Members& members() const noexcept { return *members_; }
  Session& session() const noexcept { return members_->session(); }
  Work& work() noexcept { return work_; }
  /// The call is in flight from now on.
  void begin(Work work) noexcept {
    work_ = std::move(work);
    in_flight_ = true;
  }
  /// The call has ended: gives back its place in the World.
  void end() noexcept {
    in_flight_ = false;
    work_ = Work();
  }

  /// Takes an array that the call reads or writes.
  const Exported& use(const char* argument, nb::handle object, bool writes) {
    return arrays_.at(used_++) = exported({name_, argument}, object, writes);
  }
  /// Takes one more of any number of arrays.
  const Exported& use_more(const char* argument, nb::handle object, bool writes) {
    lists_.emplace_back().push_back(exported({name_, argument}, object, writes));
    return lists_.back().front();
  }
  const std::vector<Exported>& use_list(const char* argument, nb::handle list, bool writes) {
    lists_.push_back(exported_list({name_, argument}, list, writes));
    return lists_.back();
  }
  void use(std::shared_ptr<UserReduction> reduction) noexcept { reduction_ = std::move(reduction); }
  /// The text lives as long as the call. Null if `text` is None.
  const char* use_label(nb::handle text);
  /// The line of Python that makes the call, and `text` if that is not None.
  const char* use_line(nb::handle text);
  const std::shared_ptr<UserReduction>& reduction() const noexcept { return reduction_; }
  /// The bytes of the arrays.
  std::size_t bytes() const noexcept { return arrays_[0].memory().bytes + arrays_[1].memory().bytes; }

 private:
  const char* name_;
  std::shared_ptr<Members> members_;
  std::array<Exported, 2> arrays_;
  std::size_t used_ = 0;
  std::vector<std::vector<Exported>> lists_;
  std::shared_ptr<UserReduction> reduction_;
  nb::object label_;
  bool in_flight_ = false;
  Work work_;
};

/// Waits until the call has ended, or until `until`: then the status is Pending. Python's signal handlers run every
/// 100 ms. After 200 ms the call is named by the line of Python that waits.
/// `began_here`: the line also makes the call.
/// Precondition: a Turn lives.
/// Errors: the exception of a signal handler. The call goes on.
Status wait_for(Call& call, Deadline until, bool began_here);

/// Throws if the status is a failure, or if the user's reduction has thrown. In that case the communicator ends on all
/// ranks, because the reduction's result is missing.
void require(Call& call, const Status& status);

/// More bytes than this are worth a release of Python's lock while the call is started.
inline constexpr std::size_t kLongBytes = std::size_t{32} << 10;

/// Starts a call by `start`, which returns its Work, and waits for its end.
/// Cost: the first look takes 2 us at most and keeps Python's lock. Later ones release it.
template <class Start>
void run_now(Call& call, Start&& start) {
  const Turn turn = call.members().enter(call.name());
  Session& session = call.session();
  session.sweep();
  Status status;
  if (session.is_single() && call.bytes() <= kLongBytes) [[likely]] {
    call.begin(start(true));
    status = call.work().wait(Deadline(Clock::time_point{}));
  } else {
    const nb::gil_scoped_release unlocked;
    call.begin(start(true));
    status = call.work().wait(Deadline::after(kSignalPause));
  }
  if (status.code() == Code::Pending) [[unlikely]]
    status = wait_for(call, Deadline::never(), true);
  session.outside([&] { call.end(); });
  if (!status.ok() || call.reduction()) [[unlikely]]
    require(call, status);
}

/// Starts a call by `start`. The call is then in flight.
template <class Start>
void start_now(Call& call, Start&& start) {
  const Turn turn = call.members().enter(call.name());
  Session& session = call.session();
  session.sweep();
  if (session.is_single() && call.bytes() <= kLongBytes) [[likely]] {
    call.begin(start(false));
  } else {
    const nb::gil_scoped_release unlocked;
    call.begin(start(false));
  }
}

}  // namespace sinew::python

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>
#include <vector>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

/// Keeps what belongs to a fork's parent. Its end would take descriptors out of the parent's epoll, and could wait for
/// a lock that a thread of the parent held when the child was made.
void leave_to_parent(std::shared_ptr<void> what) {
  static auto* const kLeft = new std::vector<std::shared_ptr<void>>;
  const ProcessLock lock(OfProcess::LeftToParent);
  kLeft->push_back(std::move(what));
}

[[noreturn]] void reject(const char* doing, const ErrorCode& error) { throw_errno(doing, error.value()); }

}  // namespace

struct EventLoop::Inside {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer opens_epoll{context};  // opened here, so that a lack of descriptors is an error of the constructor
  ForkMark fork;
};

struct EventLoop::Watch::State : std::enable_shared_from_this<State> {
  State(asio::io_context& context, Call call) : descriptor(context), ready(std::move(call)) {}

  void arm() {
    if (interest.read && !std::exchange(waits_to_read, true)) wait(asio::posix::stream_descriptor::wait_read);
    if (interest.write && !std::exchange(waits_to_write, true)) wait(asio::posix::stream_descriptor::wait_write);
  }
  void wait(asio::posix::stream_descriptor::wait_type what) {
    const bool reads = what == asio::posix::stream_descriptor::wait_read;
    descriptor.async_wait(what, [self = shared_from_this(), reads](const ErrorCode& error) {
      (reads ? self->waits_to_read : self->waits_to_write) = false;
      const bool wanted = reads ? self->interest.read : self->interest.write;
      if (self->ended || !wanted || error) return;  // an error: a regular file, which epoll does not take
      self->ready();
      if (!self->ended) self->arm();
    });
  }
  void end() {
    if (std::exchange(ended, true)) return;
    if (fork.in_child()) return leave_to_parent(shared_from_this());
    // Taken out of epoll here: Asio leaves that out when it closes a descriptor, and a child that holds the same open
    // file would let later events point at this object.
    descriptor.release();
  }

  asio::posix::stream_descriptor descriptor;
  Call ready;
  Interest interest;
  bool waits_to_read = false;
  bool waits_to_write = false;
  bool ended = false;
  ForkMark fork;
};

EventLoop::Watch::Watch(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
EventLoop::Watch::Watch(Watch&& other) noexcept = default;
EventLoop::Watch& EventLoop::Watch::operator=(Watch&& other) noexcept {
  if (state_ && state_ != other.state_) state_->end();
  state_ = std::move(other.state_);
  return *this;
}
EventLoop::Watch::~Watch() {
  if (state_) state_->end();
}

void EventLoop::Watch::want(Interest interest) {
  if (!state_ || state_->interest == interest) return;
  state_->interest = interest;
  state_->arm();
}

struct EventLoop::Timer::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& context) : timer(context) {}

  void start(Clock::time_point when, Call then) {
    timer.expires_at(when);
    timer.async_wait([self = shared_from_this(), number = ++last, then = std::move(then)](const ErrorCode& error) {
      if (!error && self->last == number) then();
    });
  }
  void end() {
    ++last;
    if (fork.in_child()) return leave_to_parent(shared_from_this());
    timer.cancel();
  }

  asio::steady_timer timer;
  std::uint64_t last = 0;  ///< number of the call that counts: one that is under way already is not cancelled
  ForkMark fork;
};

EventLoop::Timer::Timer(EventLoop& loop) : state_(std::make_shared<State>(loop.inside_->context)) {}
EventLoop::Timer::Timer(Timer&& other) noexcept = default;
EventLoop::Timer& EventLoop::Timer::operator=(Timer&& other) noexcept {
  if (state_ && state_ != other.state_) state_->end();
  state_ = std::move(other.state_);
  return *this;
}
EventLoop::Timer::~Timer() {
  if (state_) state_->end();
}

void EventLoop::Timer::start(Clock::time_point when, Call then) { state_->start(when, std::move(then)); }
void EventLoop::Timer::stop() { state_->end(); }

EventLoop::EventLoop() {
  try {
    inside_ = std::make_unique<Inside>();
  } catch (const boost::system::system_error& e) {
    reject("making an event loop", e.code());
  }
}

EventLoop::~EventLoop() {
  if (inside_ && inside_->fork.in_child()) leave_to_parent(std::shared_ptr<Inside>(std::move(inside_)));
}

EventLoop::Watch EventLoop::watch(int descriptor, Interest interest, Call ready) {
  auto state = std::make_shared<Watch::State>(inside_->context, std::move(ready));
  ErrorCode error;
  state->descriptor.assign(descriptor, error);
  if (error) reject("watching a descriptor", error);
  Watch watch(std::move(state));
  watch.want(interest);
  return watch;
}

void EventLoop::post(Call call) { asio::post(inside_->context, std::move(call)); }

void EventLoop::run() {
  inside_->context.restart();
  inside_->context.run();
}

void EventLoop::stop() {
  post([this] { inside_->context.stop(); });
}

void EventLoop::run_once(Deadline until) {
  asio::io_context& context = inside_->context;
  context.restart();
  const bool forever = !until.given() || until.at() == Clock::time_point::max();
  if ((forever ? context.run_one() : context.run_one_until(until.at())) == 0) return;
  // With a limit, because a socket that is always ready to write would keep this loop going for ever.
  constexpr int kMost = 64;
  for (int calls = 1; calls < kMost && context.poll_one() != 0; ++calls) {
  }
}

}  // namespace sinew

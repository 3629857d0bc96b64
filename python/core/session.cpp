#include "session.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

#include "../sinew/csrc/signal_pause.hpp"
#include "call.hpp"
#include "errors.hpp"
#include "python.hpp"

namespace sinew::python {
namespace {

/// All Sessions, for the end of the program. Python's lock is held.
std::unordered_set<Session*>& sessions() {
  static auto* const kSessions = new std::unordered_set<Session*>;
  return *kSessions;
}

/// The time that calls in flight have to end by themselves when the program drops their World.
constexpr auto kEndsByItself = std::chrono::seconds(1);

/// Sessions that threads of run_aside have left. Such a thread must not be the last owner of a Session: to end it takes
/// Python's lock, and a thread that asks for this lock while Python ends is ended itself.
class LeftSessions {
 public:
  void leave(std::shared_ptr<Session> session) {
    if (!session) return;
    const ProcessLock lock(OfProcess::Bindings);
    sessions_.push_back(std::move(session));
  }
  /// Python's lock is held. Ends the Sessions that nobody else owns.
  void end() {
    std::vector<std::shared_ptr<Session>> ended;
    const ProcessLock lock(OfProcess::Bindings);
    ended.swap(sessions_);
  }

 private:
  std::vector<std::shared_ptr<Session>> sessions_;
};

LeftSessions& left_sessions() {
  static auto* const kLeft = new LeftSessions;
  return *kLeft;
}

bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

}  // namespace

Session::Session(World world, const WorldOptions& options)
    : single_(options.threads == Threads::Single),
      timeout_(options.config.timeout),
      names_calls_(options.config.python_sites),
      world_(std::move(world)) {
  sessions().insert(this);
}

Session::~Session() {
  sessions().erase(this);
  end();
}

void Session::refuse(const char* call) const {
  if (!is_open()) reject(call, "the World is closed");
  if (closing_) reject(call, "the World is being closed");
  reject(call,
         "another thread is inside this World, or this thread is in a signal handler or a reduction during a call, and "
         "the "
         "World is for one thread at a time; make it by World(threads=\"multiple\")");
}

void Session::keep(Call&& call) { kept_calls_.push_back(std::make_shared<Call>(std::move(call))); }
void Session::keep(Communicator&& communicator) { kept_communicators_.push_back(std::move(communicator)); }
void Session::keep(Memory&& memory) { kept_memories_.push_back(std::move(memory)); }

void Session::sweep_kept() {
  if (in_child()) return;
  std::vector<std::shared_ptr<Call>> calls;
  calls.swap(kept_calls_);
  std::vector<Communicator> communicators;
  communicators.swap(kept_communicators_);
  std::vector<Memory> memories;
  memories.swap(kept_memories_);
  std::vector<bool> ended(calls.size());
  outside([&] {
    memories.clear();
    communicators.clear();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i]->work().test()) continue;
      calls[i]->end();
      ended[i] = true;
    }
  });
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!ended[i]) kept_calls_.push_back(std::move(calls[i]));
  }
}

std::vector<std::shared_ptr<Call>> Session::in_flight(const Members* of) {
  std::vector<std::shared_ptr<Call>> calls;
  const auto add = [&](const std::shared_ptr<Call>& call) {
    if (call && !call->work().done() && (of == nullptr || &call->members() == of)) calls.push_back(call);
  };
  for (const auto& started : started_) add(started.second.lock());
  for (const auto& call : kept_calls_) add(call);
  return calls;
}

void Session::wait_for_calls(const Members* of) {
  for (auto calls = in_flight(of); !calls.empty(); calls = in_flight(of)) {
    static_cast<void>(wait_for(*calls.front(), Deadline::after(kSignalPause), false));
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void Session::close() {
  if (!is_open()) return;
  if (in_child()) return end();
  if (inside_.load(std::memory_order_relaxed) != 0)
    reject("close", "a call is inside this World, on another thread or on this one; wait for its end before closing");
  {
    const Turn turn(*this, "close");
    closing_ = true;
    const Closing unless_thrown{*this};
    wait_for_calls(nullptr);
    sweep();
  }
  end();
}

void Session::end_calls() noexcept {
  if (in_child()) return;
  const auto calls = in_flight(nullptr);
  if (calls.empty()) return;
  closing_ = true;
  const nb::gil_scoped_release unlocked;
  try {
    const Deadline until = Deadline::after(kEndsByItself);
    for (const auto& call : calls) {
      if (call->work().wait(until).code() == Code::Pending)
        call->members().communicator().abort_here("the program let its World go while this call was in flight");
    }
  } catch (const Error&) {
    // The World has failed already, so its calls end by themselves.
  }
}

void Session::end() noexcept {
  if (!is_open()) return;
  if (inside_.load(std::memory_order_relaxed) != 0) {
    // A call that was interrupted still runs. Its World stays until the process ends.
    static_cast<void>(new std::optional<World>(std::move(world_)));
    world_.reset();
    return;
  }
  end_calls();
  std::vector<std::shared_ptr<Call>> calls;
  calls.swap(kept_calls_);
  std::vector<Communicator> communicators;
  communicators.swap(kept_communicators_);
  for (Members* members : members_) {
    members->closed_ = true;
    if (members->own_) communicators.push_back(std::move(*members->own_));
    members->own_.reset();
  }
  std::vector<Memory> memories;
  memories.swap(kept_memories_);
  for (Memory* memory : memories_) memories.push_back(std::exchange(*memory, {}));
  memories_.clear();
  std::optional<World> world;
  world.swap(world_);
  {
    const nb::gil_scoped_release unlocked;
    memories.clear();
    communicators.clear();
    world.reset();
  }
  // The World has ended its calls, so nobody uses their arrays any more.
}

Members::Members(std::shared_ptr<Session> session) : session_(std::move(session)) {
  rank_ = session_->world().rank();
  size_ = session_->world().size();
  session_->members_.insert(this);
}

Members::Members(std::shared_ptr<Session> session, Communicator own)
    : session_(std::move(session)), own_(std::move(own)), rank_(own_->rank()), size_(own_->size()) {
  session_->members_.insert(this);
}

Members::~Members() {
  session_->members_.erase(this);
  if (!own_ || !session_->is_open()) return;
  if (session_->may_free() && !session_->in_child()) {
    session_->outside([this] { own_.reset(); });
  } else {
    session_->keep(std::move(*own_));
  }
}

void Members::close() {
  if (closed_ || !own_) {
    closed_ = true;
    return;
  }
  if (session_->in_child()) {
    closed_ = true;
    return;
  }
  const Turn turn = enter("close");
  session_->wait_for_calls(this);
  closed_ = true;
  std::optional<Communicator> own;
  own.swap(own_);
  session_->outside([&] { own.reset(); });
}

void Members::refuse_closed(const char* call) { reject(call, "the communicator is closed"); }

void run_aside(std::shared_ptr<Session> session, std::optional<Turn> turn, std::function<void()> work) {
  if (!is_main_thread()) {
    const nb::gil_scoped_release unlocked;
    return work();
  }
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    std::exception_ptr thrown;
    std::shared_ptr<Session> session;  // outlives the Turn
    std::optional<Turn> turn;
  };
  auto shared = std::make_shared<Shared>();
  shared->session = std::move(session);
  if (turn) shared->turn.emplace(std::move(*turn));
  thread_without_signals([shared, work = std::move(work)]() mutable {
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    work = nullptr;  // its objects go before the Turn
    const std::scoped_lock lock(shared->mutex);
    shared->turn.reset();
    left_sessions().leave(std::move(shared->session));
    shared->thrown = std::move(thrown);
    shared->ended = true;
    shared->changed.notify_one();
  }).detach();
  std::exception_ptr thrown;
  while (true) {
    {
      const nb::gil_scoped_release unlocked;
      std::unique_lock lock(shared->mutex);
      shared->changed.wait_for(lock, kSignalPause, [&] { return shared->ended; });
      // The exception may be one of Python, so the thread does not keep it, either.
      if (shared->ended) thrown = std::exchange(shared->thrown, nullptr);
      if (shared->ended) break;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  left_sessions().end();
  if (thrown) std::rethrow_exception(thrown);
}

void end_all_before_exit() {
  left_sessions().end();
  std::vector<std::shared_ptr<Session>> all;  // an array's destructor may drop another World
  for (Session* session : sessions()) all.push_back(session->weak_from_this().lock());
  for (const auto& session : all) {
    if (session) session->end();
  }
}

}  // namespace sinew::python

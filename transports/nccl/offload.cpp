#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/nccl/calls/issue.hpp>
#include <sinew/transports/nccl/offload.hpp>

namespace sinew::nccl {
namespace {

/// Turns of progress without an event between two looks for asynchronous errors.
constexpr std::uint32_t kTurnsPerLook = 64;

}  // namespace

NcclOffload::NcclOffload(Shared& shared, const Group& group, Agreement agreed, std::span<const DeviceLinks> devices)
    : shared_(shared),
      rank_(group.rank),
      ranks_(group.size()),
      place_(fmt::format("{} on {}", group.rank_text(group.rank), group.text())),
      obstacle_(std::move(agreed.obstacle)),
      abilities_(agreed.abilities),
      prospects_(agreed.abilities, devices),
      origin_(std::move(agreed.origin)),
      comm_(agreed.comm),
      birth_(std::move(agreed.birth)),
      made_by_(Deadline::after(shared.timeout)),
      state_(State::Making),
      known_(shared.library.api, shared.order.runtime(), shared.order.device()) {
  shared_.order.enter();
  if (!obstacle_.empty()) end_ = Status(Code::Unavailable, obstacle_);
  if (!obstacle_.empty()) state_ = State::Ended;
}

NcclOffload::~NcclOffload() {
  const bool quiet = state_ == State::Ready && pending_ == 0;
  if (quiet && known_.forget(comm_, abilities_.features.windows, true) == Result::Success) {
    through_ = shared_.endings.finish(comm_);
  } else {
    end(Status(Code::Aborted, "the communicator was destroyed"));
  }
  shared_.order.leave();
  // What has not come to its end by now never will: its owner has waited.
  if (draining_) shared_.order.runtime().release(drain_);
  for (LaunchList* list : {&started_, &ended_}) {
    while (list->front() != nullptr) {
      Launch& launch = list->pop();
      if (launch.errand) launch.errand->ended(end_);
      put_away(launch);
    }
  }
  if (own_) shared_.left_streams.keep(std::move(own_), through_);
}

bool NcclOffload::set_stream_priority(StreamPriority priority) {
  if (own_) return false;
  priority_ = priority;
  return true;
}

OwnStream& NcclOffload::own() {
  if (!own_) own_ = std::make_unique<OwnStream>(shared_.order.runtime(), shared_.order.device(), priority_);
  return *own_;
}

Availability NcclOffload::supports(const CollectiveDesc& desc) const {
  return obstacle_.empty() ? prospects_.supports(desc) : Availability::no(obstacle_);
}

Seconds NcclOffload::predict(const CollectiveDesc& desc) const { return prospects_.predict(desc); }

std::string NcclOffload::describe(const CollectiveDesc& desc) const {
  return fmt::format("{}, {}; {}", prospects_.function(desc), origin_, prospects_.expectation(desc));
}

void NcclOffload::launch(const sinew::Call& call, Completion& done) {
  const bool waits = call.after.device >= 0 && call.capture == 0 && end_.ok();
  DeviceRuntime& runtime = shared_.order.runtime();
  const DeviceRuntime::Event after = waits ? runtime.record(call.after) : 0;
  const std::size_t count = parts_of(call);
  auto* parts = count > 0 ? static_cast<Extent*>(pool_.take(count * sizeof(Extent))) : nullptr;
  begin(*new (pool_.take(sizeof(Launch))) Launch{.issuer = this,
                                                 .call = NcclCall(call, parts),
                                                 .event = after,
                                                 .waits = waits,
                                                 .capturing = call.after,
                                                 .capture = call.capture,
                                                 .mark = call.mark,
                                                 .done = &done,
                                                 .parts = parts,
                                                 .part_count = count});
}

void NcclOffload::begin(Launch& launch) {
  ++pending_;
  if (!end_.ok()) return ended_.push(launch);
  shared_.order.add(launch);
  shared_.order.advance();
}

void NcclOffload::abort(const Status& reason) noexcept { end(reason); }

Issuer::Answer NcclOffload::ready(const Launch& next) noexcept {
  const Answer answer = poll(next.errand.get());
  const bool waits_for_calls = next.errand && started_.front() != nullptr;
  return answer == Answer::Yes && waits_for_calls ? Answer::NotYet : answer;
}

/// Where NCCL is with what it was asked before. `errand`: it may be that.
Issuer::Answer NcclOffload::poll(const Errand* errand) noexcept {
  if (state_ == State::Ready) return Answer::Yes;
  if (state_ == State::Ended) return Answer::Failed;
  if (birth_ && !born()) return state_ == State::Ended ? Answer::Failed : Answer::NotYet;
  const bool making = state_ == State::Making;
  const char* what = making ? "ncclCommInitRankConfig" : errand != nullptr ? errand->function() : "a call";
  Result state = Result::Success;
  const Result asked = shared_.library.api.comm_get_async_error(comm_, &state);
  if (asked != Result::Success || state != Result::InProgress)
    return answer_to(asked == Result::Success ? state : asked, what);
  const bool late = making ? made_by_.passed() : errand != nullptr && through_by_.passed();
  if (!late) return Answer::NotYet;
  give_up(what);
  return Answer::Failed;
}

Issuer::Answer NcclOffload::issue(const Launch& launch) noexcept {
  LaunchOrder& order = shared_.order;
  const Api& api = shared_.library.api;
  try {
    if (launch.errand) return run(*launch.errand);
    const bool is_captured = launch.capture != 0;
    const StreamRef stream = is_captured ? launch.capturing : own().stream();
    if (is_captured) {
      order.capture_on(stream, launch.capture);
    } else {
      if (launch.waits) order.runtime().wait(stream, launch.event);
      order.start_on(stream);
    }
    const NcclCall call = apart(launch, stream);
    RedOp op{};
    if (const Result found = operators_.find(api, comm_, call, op); found != Result::Success)
      return answer_to(found, "ncclRedOpCreatePreMulSum");
    const Features& features = abilities_.features;
    return answer_to(nccl::issue({api, comm_, rank_, ranks_, stream.stream}, features, call, op),
                     way_of(call.collective, features));
  } catch (const std::exception& e) {
    end(status_of(e));
    return Answer::Failed;
  }
}

/// Of a call in place that NCCL cannot run so: reads a copy.
NcclCall NcclOffload::apart(const Launch& launch, StreamRef stream) {
  const NcclCall& call = launch.call;
  const std::size_t bytes = call.bytes_to_copy(ranks_);
  if (bytes == 0) return call;
  const Place place{MemoryKind::Device, stream.device};
  Scratch& scratch = own().scratch();
  const Buffer copy = launch.capture != 0 ? scratch.kept(bytes) : scratch.at_least(bytes, stream);
  shared_.order.runtime().copy_async(copy, ConstBuffer(call.in, bytes, place), stream);
  NcclCall from_copy = call;
  from_copy.in = copy.data;
  return from_copy;
}

Issuer::Answer NcclOffload::answer_to(Result result, std::string_view function) noexcept {
  if (result == Result::Success) {
    state_ = State::Ready;
    return Answer::Yes;
  }
  if (result == Result::InProgress) {
    state_ = State::Busy;
    return Answer::NotYet;
  }
  fail(fmt::format("{}: {}", function, words_of(shared_.library.api, result, comm_)));
  return Answer::Failed;
}

void NcclOffload::started(Launch& launch) noexcept {
  LaunchOrder& order = shared_.order;
  if (launch.waits) order.runtime().release(launch.event);
  launch.waits = false;
  if (launch.capture != 0) return captured(launch);
  started_.push(launch);
  if (launch.errand) return;
  try {
    launch.event = order.runtime().record(own().stream());
    launch.mark->set(order.runtime(), launch.event);  // it takes the event over, and keeps it beyond the completion
  } catch (const std::exception& e) {
    end(status_of(e));
  }
}

/// The capture holds the call from now on, and nothing tells when it runs. Its completion may start further calls, so
/// it comes last.
void NcclOffload::captured(Launch& launch) noexcept {
  LaunchOrder& order = shared_.order;
  Status status;
  try {
    order.captured_on(launch.capturing, launch.capture);
    launch.mark->set(order.runtime(), order.runtime().record(launch.capturing), launch.capture);
  } catch (const std::exception& e) {
    status = status_of(e);  // the capture is broken, which says nothing of the communicator
  }
  finish(launch, std::move(status));
}

void NcclOffload::give_up(const char* function) noexcept {
  end(Status(Code::Timeout, fmt::format("NCCL {}: {}: {} has not met all ranks in time",
                                        version_text(shared_.library.version), place_, function)));
}

void NcclOffload::fail(const std::string& why) noexcept {
  end(Status(Code::System, fmt::format("NCCL {}: {}: {}", version_text(shared_.library.version), place_, why)));
}

/// The first reason stands. NCCL stops on a thread of its own; what it may still touch ends after that.
void NcclOffload::end(const Status& reason) noexcept {
  if (state_ == State::Ended) return;
  state_ = State::Ended;
  end_ = reason;
  const bool with_nccl = shared_.order.drop(*this, ended_);
  if (birth_) birth_->wanted = false;
  if (birth_ && birth_->over) comm_ = std::exchange(birth_->comm, nullptr);
  if (comm_ == nullptr) return;  // nothing was issued
  std::vector<std::shared_ptr<const void>> used = known_.take_all();
  if (with_nccl) used.push_back(ended_.front()->errand);
  through_ = shared_.endings.abort(std::exchange(comm_, nullptr), std::move(used));
  if (with_nccl || started_.front() != nullptr) aborted_ = through_;
}

int NcclOffload::progress() noexcept {
  if (state_ == State::Making) poll(nullptr);
  int events = shared_.order.advance();
  if (state_ == State::Ready && known_.has_dropped()) forget_dropped();
  events += state_ == State::Ended ? finish_ended() : finish_reached();
  if (events > 0 || pending_ == 0) return events;
  if (++quiet_turns_ % kTurnsPerLook == 0 && state_ == State::Ready) look_for_errors();
  return 0;
}

int NcclOffload::finish_reached() noexcept {
  int count = 0;
  try {
    while (started_.front() != nullptr &&
           (started_.front()->errand || shared_.order.runtime().query(started_.front()->event))) {
      finish(started_.pop(), {});
      ++count;
    }
  } catch (const std::exception& e) {
    end(status_of(e));
  }
  return count;
}

/// NCCL is through with the abort, and the stream has come past all that was on it: no buffer is touched any more.
bool NcclOffload::drained() noexcept {
  if (!aborted_) return true;
  if (!aborted_->load(std::memory_order_acquire)) return false;
  DeviceRuntime& runtime = shared_.order.runtime();
  try {
    if (own_ && !draining_) {
      drain_ = runtime.record(own_->stream());
      draining_ = true;
    }
    if (draining_ && !runtime.query(drain_)) return false;
  } catch (const Error&) {
    // The device has failed: nothing of it will come any more.
  }
  if (std::exchange(draining_, false)) runtime.release(drain_);
  aborted_.reset();
  return true;
}

int NcclOffload::finish_ended() noexcept {
  if (pending_ == 0 || !drained()) return 0;
  int count = 0;
  for (LaunchList* list : {&started_, &ended_}) {
    // Those that are launched by what ends here have their turn in the next progress.
    for (LaunchList now = std::exchange(*list, {}); now.front() != nullptr; ++count) finish(now.pop(), end_);
  }
  return count;
}

void NcclOffload::look_for_errors() noexcept {
  Result state = Result::Success;
  const Result asked = shared_.library.api.comm_get_async_error(comm_, &state);
  const Result worst = asked == Result::Success ? state : asked;
  if (worst != Result::Success) fail(words_of(shared_.library.api, worst, comm_));
}

void NcclOffload::finish(Launch& launch, Status status) noexcept {
  Completion& done = *launch.done;
  if (launch.errand) launch.errand->ended(status);
  put_away(launch);
  done.finish(std::move(status));
}

void NcclOffload::put_away(Launch& launch) noexcept {
  if (launch.waits) shared_.order.runtime().release(launch.event);
  if (launch.parts != nullptr) pool_.give(launch.parts, launch.part_count * sizeof(Extent));
  launch.~Launch();
  pool_.give(&launch, sizeof(Launch));
  --pending_;
}

Availability NcclOffload::available() const {
  if (!obstacle_.empty()) return Availability::no(obstacle_);
  if (abilities_.features.registration) return Availability::yes();
  return Availability::no(lack_of("ncclCommRegister", kFirstWithRegistration, abilities_.version));
}

std::string NcclOffload::describe() const {
  const std::string version = version_text(abilities_.version);
  if (abilities_.features.windows) return fmt::format("a window of NCCL {}", version);
  return fmt::format("registered with NCCL {}: {}", version,
                     lack_of("ncclCommWindowRegister", kFirstWithWindows, abilities_.version));
}

void NcclOffload::attach(const Region& region, Completion& done) {
  begin(known_.attaching(region, abilities_.features.windows), done);
}

std::string NcclOffload::no_split() const {
  if (!obstacle_.empty()) return "it has no communicator of NCCL";
  if (!abilities_.features.split) return lack_of("ncclCommSplit", kOldest, abilities_.version);
  return end_.ok() ? std::string() : fmt::format("its communicator has ended: {}", end_.message());
}

void NcclOffload::split(std::shared_ptr<Birth> birth, int color, int key, Completion& done) {
  begin(std::make_shared<SplitErrand>(shared_.endings, std::move(birth), color, key), done);
}

void NcclOffload::begin(std::shared_ptr<Errand> errand, Completion& done) {
  begin(*new (pool_.take(sizeof(Launch))) Launch{.issuer = this, .done = &done, .errand = std::move(errand)});
}

/// Whatever it returns, NCCL may be at work on it yet: the communicator knows.
Issuer::Answer NcclOffload::run(Errand& errand) {
  const CurrentDevice current(shared_.order.runtime(), shared_.order.device());
  const Answer answer = answer_to(errand.run(shared_.library.api, comm_), errand.function());
  if (answer == Answer::Failed) return answer;
  state_ = State::Busy;
  through_by_ = Deadline::after(shared_.timeout);
  return Answer::NotYet;
}

/// Of a part of another communicator: takes what that has made.
bool NcclOffload::born() noexcept {
  if (birth_->over && birth_->end.ok()) {
    comm_ = birth_->comm;
    birth_.reset();
    return true;
  }
  if (birth_->over) {
    end(birth_->end);
  } else if (made_by_.passed()) {
    give_up("ncclCommSplit");
  }
  return false;
}

void NcclOffload::forget_dropped() noexcept {
  const bool windows = abilities_.features.windows;
  const Result worst = known_.forget(comm_, windows, false);
  if (worst != Result::Success) answer_to(worst, windows ? "ncclCommWindowDeregister" : "ncclCommDeregister");
}

}  // namespace sinew::nccl

#include <signal.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include <sinew/conformance/fault_injector.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

constexpr auto kOvertakeWithin = std::chrono::milliseconds(50);

/// Does it happen to a message?
bool is_of_messages(Fault::Kind kind) noexcept {
  return kind != Fault::Kind::Kill && kind != Fault::Kind::Stall && kind != Fault::Kind::Refuse;
}

}  // namespace

/// A message that nobody asked for: its sender does not wait for it.
struct FaultInjector::Copy : Completion {
  explicit Copy(ConstBuffer of)
      : Completion([](Completion& c) noexcept { static_cast<Copy&>(c).over = true; }),
        bytes(of.data, of.data + of.bytes) {}

  std::vector<std::byte> bytes;
  bool over = false;
};

class FaultInjector::FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(FaultInjector& owner, std::unique_ptr<Endpoint> carrier) : inner(std::move(carrier)), owner_(owner) {}
  ~FaultyEndpoint() override { owner_.forget(*this); }

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override {
    owner_.send({this, from, tag, note, &done, {}, false});
  }
  void recv(Sink to, Tag tag, Completion& done) override {
    owner_.count_operation();
    owner_.begin(*this, done, [=, this, &done] { inner->recv(to, tag, done); });
  }
  bool has_unexpected(Tag tag) const noexcept override { return inner->has_unexpected(tag); }
  bool cancel(Completion& done) override {
    const std::optional<bool> own = owner_.cancel_own(done);
    return own ? *own : inner->cancel(done);
  }
  void close(Completion& closed) override {
    owner_.forget(*this);
    inner->close(closed);
  }

  const std::unique_ptr<Endpoint> inner;

 private:
  FaultInjector& owner_;
};

FaultInjector::FaultInjector(Transport& inner, const std::vector<Fault>& faults, int rank) : inner_(inner) {
  std::ranges::copy_if(faults, std::back_inserter(faults_),
                       [rank](const Fault& f) { return f.rank < 0 || f.rank == rank; });
}

FaultInjector::~FaultInjector() {
  constexpr int kTurns =
      100;  // All endpoints have ended, and with them their messages. The next calls of progress() find these over.
  for (int turn = 0; turn < kTurns && !copies_.empty(); ++turn) {
    inner_.progress();
    copies_.remove_if([](const Copy& c) { return c.over; });
  }
}

std::unique_ptr<Endpoint> FaultInjector::connect(const Address& peer) {
  ++connections_;
  for (const Fault& f : faults_) {
    if (f.kind != Fault::Kind::Refuse || !f.hits(connections_)) continue;
    ++hits_;
    throw Error(Code::Unavailable, "connection " + std::to_string(connections_) + " is refused, as a fault says");
  }
  return std::make_unique<FaultyEndpoint>(*this, inner_.connect(peer));
}

void FaultInjector::count_operation() {
  ++operations_;
  for (const Fault& f : faults_) {
    if (!f.hits(operations_) || (f.kind != Fault::Kind::Kill && f.kind != Fault::Kind::Stall)) continue;
    ++hits_;
    if (f.kind == Fault::Kind::Kill) ::raise(SIGKILL);
    stalled_ = true;
    stalled_until_ = f.time == Duration{} ? Clock::time_point::max() : Clock::now() + f.time;
  }
}

/// The first rule that hits it; null: none.
const Fault* FaultInjector::fault_of_next_send() {
  ++sends_;
  const auto at =
      std::ranges::find_if(faults_, [this](const Fault& f) { return f.hits(sends_) && is_of_messages(f.kind); });
  if (at == faults_.end()) return nullptr;
  ++hits_;
  return &*at;
}

/// While nothing moves, an operation waits with all behind it.
void FaultInjector::begin(FaultyEndpoint& at, Completion& done, std::function<void()> operation) {
  if (!is_stopped() && stopped_.empty()) return operation();
  stopped_.push_back({&at, &done, std::move(operation)});
}

void FaultInjector::send(Held message) {
  count_operation();
  begin(*message.to, *message.done, [this, message] { pass(message); });
}

void FaultInjector::pass(Held message) {
  const auto behind = std::ranges::find(held_, message.to, &Held::to);
  const Fault* fault = fault_of_next_send();
  const auto kind = fault == nullptr ? Fault::Kind::Kill : fault->kind;  // Kill: none of those below
  if (kind == Fault::Kind::Drop) {
    message.done->bytes = message.from.bytes;
    return decide(*message.done, {});
  }
  if (kind == Fault::Kind::Truncate) message.from.bytes = std::min(message.from.bytes, fault->bytes);
  if (behind != held_.end() && behind->overtakable) {
    const Held overtaken = *behind;
    held_.erase(behind);
    hand_on(message);
    return hand_on(overtaken);
  }
  if (kind == Fault::Kind::Delay || kind == Fault::Kind::Reorder || behind != held_.end()) {
    message.overtakable = kind == Fault::Kind::Reorder && behind == held_.end();
    message.due = Clock::now() + (kind == Fault::Kind::Delay ? fault->time : Duration(kOvertakeWithin));
    held_.push_back(message);
    return;
  }
  if (kind == Fault::Kind::Duplicate && message.from.place.kind == MemoryKind::Host) send_copy(message);
  hand_on(message);
}

void FaultInjector::hand_on(const Held& message) {
  message.to->inner->send(message.from, message.tag, message.note, *message.done);
}

void FaultInjector::send_copy(const Held& message) {
  Copy& copy = copies_.emplace_back(message.from);
  message.to->inner->send({copy.bytes.data(), copy.bytes.size()}, message.tag, message.note, copy);
}

void FaultInjector::release_due() {
  if (held_.empty()) return;
  const auto now = Clock::now();
  std::set<FaultyEndpoint*> waiting;  // what is behind one that is not due waits with it
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->due > now || waiting.contains(at->to)) {
      waiting.insert(at++->to);
      continue;
    }
    hand_on(*at);
    at = held_.erase(at);
  }
}

int FaultInjector::progress() noexcept {
  if (is_stopped()) return 0;
  stalled_ = false;
  while (!stopped_.empty() && !stalled_) {
    const Stopped next = std::move(stopped_.front());
    stopped_.pop_front();
    next.begin();
  }
  release_due();
  const int events = inner_.progress() + fire_decided();
  copies_.remove_if([](const Copy& c) { return c.over; });
  return events;
}

void FaultInjector::decide(Completion& done, Status status) {
  done.status = std::move(status);
  decided_.push_back(&done);
}

/// Those that are decided now: what firing decides comes with the next progress.
int FaultInjector::fire_decided() noexcept {
  int fired = 0;
  for (std::size_t left = decided_.size(); left > 0 && !decided_.empty(); --left, ++fired) {
    Completion& done = *decided_.front();
    decided_.pop_front();
    done.fire(done);
  }
  return fired;
}

/// What cancel() says of an operation that the inner transport does not know; nullopt: it knows it.
std::optional<bool> FaultInjector::cancel_own(const Completion& done) {
  if (std::ranges::find(decided_, &done) != decided_.end()) return false;
  const auto take_out = [&](auto& waiting, auto done_of) {
    const auto at = std::ranges::find(waiting, &done, done_of);
    if (at == waiting.end()) return false;
    decide(*at->done, {Code::Cancelled, "the operation was cancelled"});
    waiting.erase(at);
    return true;
  };
  if (take_out(held_, &Held::done) || take_out(stopped_, &Stopped::done)) return true;
  return std::nullopt;
}

void FaultInjector::forget(const FaultyEndpoint& endpoint) {
  const auto end = [this](Completion& done) { decide(done, {Code::Cancelled, "the endpoint was closed"}); };
  held_.remove_if([&](const Held& h) { return h.to == &endpoint && (end(*h.done), true); });
  stopped_.remove_if([&](const Stopped& s) { return s.at == &endpoint && (end(*s.done), true); });
}

}  // namespace sinew::test

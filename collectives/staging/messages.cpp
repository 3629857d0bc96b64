#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include <sinew/collectives/staging/messages.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// The least length of pinned memory. All shorter messages use memory of this length.
constexpr std::size_t kShortestBytes = 64 << 10;

}  // namespace

StagedMessages::~StagedMessages() {
  for (const Leaving& l : leaving_) {
    if (l.waits) runtime_.release(l.event);
  }
  for (auto& [bytes, memory] : spare_) runtime_.release(memory);
  if (stream_.device >= 0) runtime_.release(stream_);
}

Buffer StagedMessages::take(std::size_t bytes) {
  const std::size_t length = std::bit_ceil(std::max(bytes, kShortestBytes));
  if (const auto spare = spare_.extract(length); !spare.empty()) return spare.mapped();
  return runtime_.allocate(length, {MemoryKind::PinnedHost, device_});
}

StagedMessages::Message& StagedMessages::make(std::size_t bytes, Completion& done) {
  if (stream_.device < 0) stream_ = runtime_.make_stream(device_);
  auto message = std::make_unique<Message>();
  message->pinned = take(bytes);
  message->done = &done;
  message->note = done.note;
  message->fire = [](Completion& c) noexcept { static_cast<Message&>(c).step = Step::CopyOut; };
  messages_.push_back(std::move(message));
  return *messages_.back();
}

void StagedMessages::begin(StreamRef after, Message& message) {
  if (after.device < 0) return;
  const DeviceRuntime::Event event = runtime_.record(after);
  runtime_.wait(stream_, event);
  message.events.push_back(event);
}

/// What was enqueued for it before must still come to its end.
void StagedMessages::fail(Message& message, const std::exception& why) noexcept {
  message.status = status_of(why);
  try {
    message.events.push_back(runtime_.record(stream_));
  } catch (const std::exception&) {
    return;  // nor will anything of the stream come
  }
}

void StagedMessages::send(ConstBuffer from, StreamRef after, Post post, Completion& done) {
  Message& message = make(from.bytes, done);
  message.post = std::move(post);
  message.bytes = from.bytes;
  try {
    begin(after, message);
    if (from.bytes != 0) runtime_.copy_async(message.pinned.part(0, from.bytes), from, stream_);
    message.events.push_back(runtime_.record(stream_));
    message.step = Step::CopyIn;
    leaving_.push_back({.message = &message});
  } catch (const std::exception& e) {
    fail(message, e);
  }
}

void StagedMessages::recv(Buffer to, StreamRef after, const Post& post, Completion& done) {
  Message& message = make(to.bytes, done);
  message.to = to;
  try {
    begin(after, message);
    message.take_back = post(message.pinned.part(0, to.bytes), message);
    message.step = Step::Travelling;
  } catch (const std::exception& e) {
    message.status = status_of(e);
  }
}

void StagedMessages::queue(bool sends, StreamRef after, std::function<void()> launch, Completion& done) {
  Leaving& last = leaving_.emplace_back();
  last.sends = sends;
  last.launch = std::move(launch);
  last.done = &done;
  if (!sends) ++receives_leaving_;
  try {
    if (after.device >= 0) last.event = runtime_.record(after);
    last.waits = after.device >= 0;
  } catch (const std::exception& e) {
    last.status = status_of(e);
  }
}

bool StagedMessages::cancel(const Completion& done) {
  const auto leaving = std::ranges::find_if(leaving_, [&](const Leaving& l) { return l.done == &done; });
  if (leaving != leaving_.end()) {
    leaving->status = Status(Code::Cancelled, "the message was cancelled before it left");
    return true;
  }
  const auto at = std::ranges::find_if(messages_, [&](const auto& m) { return m->done == &done; });
  if (at == messages_.end()) return false;
  Message& message = **at;
  message.cancelled = true;
  if (message.step == Step::Travelling) message.take_back(message);
  return true;
}

/// What was enqueued on the device for this message is over.
bool StagedMessages::copied(Message& message) {
  while (!message.events.empty()) {
    if (!runtime_.query(message.events.back())) return false;
    runtime_.release(message.events.back());
    message.events.pop_back();
  }
  return true;
}

void StagedMessages::post(Message& message) {
  message.step = Step::Travelling;
  message.take_back = message.post(message.pinned.part(0, message.bytes), message);
}

/// Its stream has come so far, or never will.
bool StagedMessages::may_launch(Leaving& first) {
  if (!first.waits) return true;
  try {
    if (!runtime_.query(first.event)) return false;
  } catch (const std::exception& e) {
    first.status = status_of(e);
  }
  return true;
}

/// Ends messages that were cancelled before they left. They have nothing in flight, so they do not wait for their
/// streams.
int StagedMessages::end_cancelled() {
  std::vector<Leaving> ended;
  for (auto l = leaving_.begin(); l != leaving_.end();) {
    if (l->status.ok()) {
      ++l;
      continue;
    }
    ended.push_back(std::move(*l));
    l = leaving_.erase(l);
  }
  for (Leaving& l : ended) {
    if (l.waits) runtime_.release(l.event);
    if (!l.sends) --receives_leaving_;
    l.done->finish(std::move(l.status));
  }
  return static_cast<int>(ended.size());
}

int StagedMessages::let_leave() {
  int steps = 0;
  while (!leaving_.empty()) {
    Message* message = leaving_.front().message;
    if (message == nullptr) {
      if (!may_launch(leaving_.front())) return steps;
      const Leaving now = std::move(leaving_.front());
      leaving_.pop_front();
      if (now.waits) runtime_.release(now.event);
      if (!now.sends) --receives_leaving_;
      try {
        now.status.require();
        now.launch();
      } catch (const std::exception& e) {
        now.done->finish(status_of(e));
      }
    } else {
      try {
        if (!copied(*message)) return steps;
        leaving_.pop_front();
        if (message->cancelled) throw Error(Code::Cancelled, "the send was cancelled");
        post(*message);
      } catch (const std::exception& e) {
        if (!leaving_.empty() && leaving_.front().message == message) leaving_.pop_front();
        message->status = status_of(e);
        message->step = Step::Over;
      }
    }
    ++steps;
  }
  return steps;
}

/// true: over.
bool StagedMessages::advance(Message& message) {
  if (message.step == Step::CopyOut) {
    message.step = Step::Over;
    if (message.status.ok() && message.to.data != nullptr && message.bytes != 0) {
      try {
        runtime_.copy_async(message.to.part(0, message.bytes), message.pinned.part(0, message.bytes), stream_);
        message.events.push_back(runtime_.record(stream_));
      } catch (const std::exception& e) {
        fail(message, e);
      }
    }
  }
  if (message.step != Step::Over) return false;
  try {
    return copied(message);
  } catch (const std::exception& e) {
    message.status = status_of(e);
    return true;
  }
}

int StagedMessages::progress() noexcept {
  int steps = end_cancelled() + let_leave();
  for (std::size_t i = 0; i < messages_.size();) {
    if (!advance(*messages_[i])) {
      ++i;
      continue;
    }
    const auto over = std::move(messages_[i]);
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
    spare_.emplace(over->pinned.bytes, over->pinned);
    over->done->note = over->note;
    over->done->bytes = over->bytes;
    over->done->finish(std::move(over->status));
    ++steps;
  }
  return steps;
}

bool StagedMessages::arm() noexcept {
  return leaving_.empty() && std::ranges::all_of(messages_, [](const auto& m) { return m->step == Step::Travelling; });
}

}  // namespace sinew

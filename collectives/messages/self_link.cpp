#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/messages/self_link.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

constexpr std::size_t kKeptBytes = 64 << 10;

}  // namespace

void SelfLink::send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) {
  done.bytes = from.bytes;
  const Envelope envelope{tag, note, from.bytes};
  if (from.bytes <= kKeptBytes) {
    matcher_.eager(envelope, from.data);
    finished_.add(done, {});
    return;
  }
  const std::uint32_t number = ++last_;
  done.make<Operation>().handle = number;
  waiting_[number] = {from, &done};
  matcher_.rendezvous(envelope, number);
}

bool SelfLink::cancel(Completion& done) {
  if (operation_of(done).stage != Stage::Sending) return matcher_.cancel(done);
  const std::uint64_t number = operation_of(done).handle;
  if (!matcher_.withdraw(number)) return false;
  waiting_.erase(number);
  finished_.add(done, {Code::Cancelled, "the send was cancelled"});
  return true;
}

void SelfLink::close(Completion& closed) {
  const Status reason(Code::Cancelled, "the endpoint was closed");
  matcher_.close(reason);
  for (const auto& [number, message] : std::exchange(waiting_, {})) finished_.add(*message.done, reason);
  finished_.add(closed, {});
}

void SelfLink::grant(std::uint64_t id, Completion& receive) {
  const Waiting message = waiting_.extract(id).mapped();
  matcher_.deliver(receive, message.from.data, message.from.bytes);
  finished_.add(*message.done, {});
}

void SelfLink::refuse(std::uint64_t id, Code why, std::uint64_t expected) {
  const Waiting message = waiting_.extract(id).mapped();
  Status status;
  if (why == Code::Mismatch) {
    message.done->note = expected;
    status = {Code::Mismatch, fmt::format("the receive expected a message of call {:#x}", expected)};
  }
  finished_.add(*message.done, std::move(status));
}

}  // namespace sinew

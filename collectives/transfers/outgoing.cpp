#include <chrono>
#include <iterator>

#include <fmt/format.h>

#include <sinew/collectives/transfers/outgoing.hpp>

namespace sinew {
namespace {

/// The time for which a send waits for a receiver that copies from its memory when the communicator has ended.
constexpr Duration kMostPatience = std::chrono::seconds(1);

}  // namespace

OutgoingTransfer::OutgoingTransfer(const TransferMeans& means, TransferCounts& counts, const TransferRoute& route,
                                   std::uint32_t number, ConstBuffer from, StreamRef after, Completion& done)
    : DeviceTransfer(means, counts, route, number, done), from_(from) {
  copied_part_.is_kept = true;
  cut(from.bytes);
  means_.pool->reserve();
  if (after.device >= 0) after_.record(*means_.runtime, after);
  details_.bytes = from.bytes;
  details_.offer(TransferWay::Pieces);
  if (route.direct >= 0 && from.bytes <= route.direct_most_bytes && connect_direct()) {
    details_.offer(TransferWay::Direct);
    details_.transport = static_cast<std::uint64_t>(route.direct);
  }
  if (route.same_process) {
    details_.offer(TransferWay::PeerCopy);
    details_.address = reinterpret_cast<std::uintptr_t>(from.data);
    details_.device = static_cast<std::uint64_t>(from.place.device);
  } else if (route.same_host && means_.path != nullptr) {
    const auto exported = means_.path->export_memory(from);
    if (exported) details_.offer(TransferWay::PeerCopy);
    details_.exported = exported.value_or(PeerMemory::Exported{});
  }
}

void OutgoingTransfer::announce(std::uint32_t users_tag) {
  card_part_.pending = true;
  card_part_.on = route_.endpoint;
  route_.endpoint->send({}, route_.tag(users_tag, UserMessageKind::User), Card::note(route_.note, number_), card_part_);
  send({reinterpret_cast<const std::byte*>(&details_), sizeof(details_)}, UserMessageKind::Details, details_part_);
  receive({reinterpret_cast<std::byte*>(&answer_), sizeof(answer_)}, UserMessageKind::Answer, answer_part_);
}

bool OutgoingTransfer::cancel() noexcept {
  if (has_gone_) return false;
  cancelled_ = true;
  return true;
}

bool OutgoingTransfer::uses_buffer() noexcept {
  if (direct_part_.pending) return true;
  if (!copied_part_.pending) return false;
  if (!patience_.given()) patience_ = Deadline::after(kMostPatience);
  if (!patience_.passed()) return true;
  route_.endpoint->cancel(copied_part_);
  return false;
}

TransferPart* OutgoingTransfer::own_parts(std::size_t index) noexcept {
  TransferPart* const parts[] = {&card_part_, &answer_part_, &copied_part_, &last_part_};
  return index < std::size(parts) ? parts[index] : nullptr;
}

bool OutgoingTransfer::waits_for_peer() const noexcept {
  if (cancelled_ && is_open()) return false;
  if (step_ == Step::PeerCopy) return copied_part_.pending;
  if (step_ == Step::Direct) return direct_part_.pending;
  return step_ == Step::Announced && answer_part_.pending && failure_of_announcement() == nullptr;
}

std::string OutgoingTransfer::describe() const {
  const std::string what = fmt::format("a send of {} bytes of device memory", bytes_);
  switch (step_) {
    case Step::Announced: return what + " was announced and waits for the receiver's answer";
    case Step::Answered:
      return what + (after_.is_set() ? " waits for its stream" : " waits for pinned memory that other sends use");
    case Step::Pieces: return fmt::format("{}, {}: {} of {} pieces are sent", what, name_of(way_), through_, count_);
    case Step::PeerCopy: return fmt::format("{}, {}, waits for the end of the receiver's copy", what, name_of(way_));
    case Step::Direct: return fmt::format("{}, {}, is on its way", what, name_of(way_));
  }
  return what;
}

void OutgoingTransfer::step() {
  if (cancelled_) finish({Code::Cancelled, "the send was cancelled"});
  if (step_ == Step::Announced) take_answer();
  if (step_ == Step::Answered) begin();
  if (step_ == Step::Pieces) move_pieces();
  if (step_ == Step::PeerCopy) await_copied();
  if (step_ == Step::Direct) await_direct();
}

/// The card ends with Mismatch if a receive has taken it, and the note is then the one that the receive expected.
const Status* OutgoingTransfer::failure_of_announcement() const noexcept {
  const bool was_taken = card_part_.status.code() == Code::Mismatch && card_part_.note == route_.note;
  if (!card_part_.pending && !card_part_.status.ok() && !was_taken) return &card_part_.status;
  if (!details_part_.pending && !details_part_.status.ok()) return &details_part_.status;
  return nullptr;
}

void OutgoingTransfer::take_answer() {
  if (const Status* failure = failure_of_announcement()) failure->require();
  const auto answer = word(answer_part_, answer_);
  if (!answer) return;
  switch (*answer) {
    case TransferWord::TakesPieces:
    case TransferWord::TakesPeerCopy:
    case TransferWord::TakesDirect:
      way_ = way_of(*answer);
      step_ = Step::Answered;
      return;
    case TransferWord::Truncated: return close({});
    case TransferWord::Failed:
      return close({Code::System, fmt::format("rank {} could not receive the message", route_.peer)});
    case TransferWord::Copied:
    case TransferWord::Go:
    case TransferWord::Withdrawn: break;
  }
  throw Error(Code::Mismatch, fmt::format("rank {} answered with {}, which is no answer", route_.peer, answer_));
}

void OutgoingTransfer::begin() {
  if (cancelled_) {
    say(TransferWord::Withdrawn, UserMessageKind::Data);
    return close({Code::Cancelled, "the send was cancelled"});
  }
  try {
    if (!after_.over()) return;
  } catch (const Error& e) {
    say(TransferWord::Failed, UserMessageKind::Data);
    return close(status_of(e));
  }
  if (way_ == TransferWay::Pieces && !take_pinned()) return;
  has_gone_ = true;
  if (way_ == TransferWay::PeerCopy)
    receive({reinterpret_cast<std::byte*>(&word_), sizeof(word_)}, UserMessageKind::Answer, copied_part_);
  say(TransferWord::Go, UserMessageKind::Data);
  switch (way_) {
    case TransferWay::Pieces: step_ = Step::Pieces; return;
    case TransferWay::PeerCopy: step_ = Step::PeerCopy; return;
    case TransferWay::Direct: step_ = Step::Direct; break;
  }
  send_on(*direct_, from_, UserMessageKind::Data, direct_part_);
  counts_.direct_bytes += bytes_;
}

void OutgoingTransfer::await_direct() {
  if (direct_part_.pending) return;
  close(direct_part_.status);
}

void OutgoingTransfer::move_pieces() {
  while (through_ < sent_ && !piece(through_).part.pending) {
    piece(through_).part.status.require();
    ++through_;
  }
  try {
    for (; copied_ < count_ && copied_ < through_ + kPiecesInFlight; ++copied_) {
      copy(pinned(copied_), from_.part(offset_of(copied_), length_of(copied_)), piece(copied_).copy);
      counts_.staged_bytes += length_of(copied_);
    }
    for (; sent_ < copied_ && piece(sent_).copy.over(); ++sent_)
      send(pinned(sent_), UserMessageKind::Data, piece(sent_).part);
  } catch (const Error& e) {
    // A piece of 0 bytes tells the receiver that the rest does not come. A transport's error is the receiver's, too.
    if (e.code() == Code::System) send({}, UserMessageKind::Data, last_part_);
    return close(status_of(e));
  }
  if (through_ == count_) close({});
}

void OutgoingTransfer::await_copied() {
  const auto said = word(copied_part_, word_);
  if (!said) return;
  close(*said == TransferWord::Copied
            ? Status()
            : Status(Code::System, fmt::format("rank {} could not copy the message from this device", route_.peer)));
}

}  // namespace sinew

#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include <sinew/collectives/transfers/incoming.hpp>
#include <sinew/core/log.hpp>

namespace sinew {

IncomingTransfer::IncomingTransfer(const TransferMeans& means, TransferCounts& counts, const TransferRoute& route,
                                   Buffer to, StreamRef after, bool lands, Completion& done)
    : DeviceTransfer(means, counts, route, 0, done), to_(to) {
  if (lands) landing_ = Landing(to.bytes);
  if (goes_to_device() && after.device >= 0) after_.record(*means_.runtime, after);
  first_.of = this;
}

void IncomingTransfer::post(std::uint32_t users_tag) {
  first_.pending = true;
  first_.note = route_.note;
  const Buffer into = landing_ ? landing_.memory() : to_;
  route_.endpoint->recv({into, nullptr, {}}, route_.tag(users_tag, UserMessageKind::User), first_);
}

bool IncomingTransfer::cancel() noexcept { return first_.pending && route_.endpoint->cancel(first_); }

TransferPart* IncomingTransfer::own_parts(std::size_t index) noexcept {
  TransferPart* const parts[] = {&first_, &word_part_};
  return index < std::size(parts) ? parts[index] : nullptr;
}

bool IncomingTransfer::take_first() noexcept {
  first_.pending = false;
  if (first_.status.code() == Code::Mismatch && Card::is_note(first_.note, route_.note)) {
    number_ = Card::number_of(first_.note);
    note_ = route_.note;
    landing_.reset();
    step_ = Step::Details;
    try {
      receive({reinterpret_cast<std::byte*>(&details_), sizeof(details_)}, UserMessageKind::Details, details_part_);
    } catch (const std::exception& e) {
      close(status_of(e));
    }
    return false;
  }
  if (!landing_ || !first_.status.ok() || first_.bytes == 0) return true;
  note_ = first_.note;
  cut(first_.bytes);
  step_ = Step::Landed;
  return false;
}

void IncomingTransfer::finish_first() noexcept {
  note_ = first_.note;
  bytes_ = first_.bytes;
  finish(std::move(first_.status));
}

bool IncomingTransfer::uses_buffer() noexcept {
  if (direct_part_.pending) return true;
  if (goes_to_device()) return false;  // its copies are over
  for (const Piece& p : pieces_) {
    if (p.part.pending) return true;
  }
  return first_.pending;
}

bool IncomingTransfer::waits_for_peer() const noexcept {
  return first_.pending || (step_ == Step::Details && details_part_.pending) ||
         (step_ == Step::Answered && word_part_.pending) || (step_ == Step::Direct && direct_part_.pending);
}

std::string IncomingTransfer::describe() const {
  const std::string what = fmt::format("a receive of {} bytes from device memory", bytes_);
  switch (step_) {
    case Step::Posted: return {};
    case Step::Details:
      return fmt::format("a receive has taken the card of a long message and waits for {}",
                         details_part_.pending ? "its details" : "its own stream");
    case Step::Answered:
      return fmt::format("{}, {}, waits until the sender's stream has come to the message", what, name_of(way_));
    case Step::Pieces: return fmt::format("{}, {}: {} of {} pieces have come", what, name_of(way_), here_, count_);
    case Step::PeerCopy: return fmt::format("{}, {}, waits for its copy", what, name_of(way_));
    case Step::Direct: return fmt::format("{}, {}, is on its way", what, name_of(way_));
    case Step::Landed:
      return fmt::format("a receive of {} bytes into device memory: {} of {} pieces are copied", bytes_, through_,
                         count_);
  }
  return what;
}

void IncomingTransfer::step() {
  if (step_ == Step::Details) answer();
  if (step_ == Step::Answered) take_word();
  if (step_ == Step::Pieces) receive_pieces();
  if (step_ == Step::Landed) land_pieces();
  if (step_ == Step::PeerCopy) copy_from_peer();
  if (step_ == Step::Direct && !direct_part_.pending) close(direct_part_.status);
}

bool IncomingTransfer::find_memory() noexcept {
  if (!details_.offers(TransferWay::PeerCopy)) return false;
  if (route_.same_process) {
    peer_memory_ = {reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(details_.address)),
                    bytes_,
                    {MemoryKind::Device, static_cast<int>(details_.device)}};
    return true;
  }
  if (means_.path == nullptr) return false;
  try {
    mapping_ = means_.path->map(details_.exported);
  } catch (const std::exception& e) {
    log::info("messages of rank {} go through pinned memory: {}", route_.peer, e.what());
    return false;
  }
  peer_memory_ = {mapping_.get() + details_.exported.offset, bytes_, to_.place};
  return true;
}

TransferWay IncomingTransfer::choose_way() noexcept {
  if (!goes_to_device()) return TransferWay::Pieces;
  if (find_memory()) return TransferWay::PeerCopy;
  const bool is_direct = details_.offers(TransferWay::Direct) && route_.direct >= 0 &&
                         details_.transport == static_cast<std::uint64_t>(route_.direct);
  return is_direct && connect_direct() ? TransferWay::Direct : TransferWay::Pieces;
}

void IncomingTransfer::begin() {
  switch (way_) {
    case TransferWay::Pieces: step_ = Step::Pieces; return;
    case TransferWay::PeerCopy: step_ = Step::PeerCopy; return;
    case TransferWay::Direct: step_ = Step::Direct; break;
  }
  receive_on(*direct_, to_.part(0, bytes_), UserMessageKind::Data, direct_part_);
}

void IncomingTransfer::answer() {
  if (details_part_.pending) return;
  details_part_.status.require();
  if (details_part_.bytes != sizeof(details_) || details_.bytes == 0 || !details_.offers(TransferWay::Pieces)) {
    throw Error(Code::Mismatch, fmt::format("rank {} announced a message whose details cannot be read", route_.peer));
  }
  cut(details_.bytes);
  if (bytes_ > to_.bytes) {
    say(TransferWord::Truncated, UserMessageKind::Answer);
    return close({Code::Truncated, fmt::format("a message of {} bytes for a receive of {}", bytes_, to_.bytes)});
  }
  try {
    if (!after_.over()) return;
    way_ = choose_way();
    if (way_ == TransferWay::Pieces && goes_to_device()) means_.pool->reserve();
  } catch (const Error& e) {
    say(TransferWord::Failed, UserMessageKind::Answer);
    return close(status_of(e));
  }
  receive({reinterpret_cast<std::byte*>(&word_), sizeof(word_)}, UserMessageKind::Data, word_part_);
  say(answer_of(way_), UserMessageKind::Answer);
  owes_word_ = way_ == TransferWay::PeerCopy;
  step_ = Step::Answered;
}

/// A sender looks at this word only after it has said Go.
void IncomingTransfer::take_leave() {
  if (!owes_word_) return;
  say(failure_.ok() && copied_ != 0 ? TransferWord::Copied : TransferWord::Failed, UserMessageKind::Answer);
}

void IncomingTransfer::take_word() {
  const auto said = word(word_part_, word_);
  if (!said) return;
  switch (*said) {
    case TransferWord::Go: return begin();
    case TransferWord::Withdrawn:
      owes_word_ = false;
      return close({Code::Cancelled, fmt::format("rank {} cancelled its send", route_.peer)});
    case TransferWord::Failed:
      owes_word_ = false;
      return close({Code::System, fmt::format("rank {} could not read the message from its device", route_.peer)});
    case TransferWord::TakesPieces:
    case TransferWord::TakesPeerCopy:
    case TransferWord::TakesDirect:
    case TransferWord::Truncated:
    case TransferWord::Copied: break;
  }
  throw Error(Code::Mismatch, fmt::format("rank {} sent {} where its Go was expected", route_.peer, word_));
}

void IncomingTransfer::receive_pieces() {
  if (goes_to_device() && !take_pinned()) return;
  for (; here_ < posted_ && !piece(here_).part.pending; ++here_) {
    const TransferPart& part = piece(here_).part;
    part.status.require();
    if (part.bytes == length_of(here_)) continue;
    throw Error(Code::System, fmt::format("rank {} could not read the message from its device: {} of {} pieces came",
                                          route_.peer, here_, count_));
  }
  copy_pieces();
  for (; posted_ < count_ && posted_ < through_ + kPiecesInFlight; ++posted_) {
    const Buffer into = goes_to_device() ? pinned(posted_) : to_.part(offset_of(posted_), length_of(posted_));
    receive(into, UserMessageKind::Data, piece(posted_).part);
  }
}

/// Copies one piece at a time from the landing, so that progress is not held up.
void IncomingTransfer::land_pieces() {
  means_.pool->reserve();
  if (!after_.over() || !take_pinned()) return;
  if (here_ < count_ && here_ < through_ + kPiecesInFlight) {
    std::memcpy(pinned(here_).data, landing_.memory().data + offset_of(here_), length_of(here_));
    ++here_;
  }
  copy_pieces();
}

void IncomingTransfer::copy_pieces() {
  try {
    if (goes_to_device() && failure_.ok()) {
      for (; copied_ < here_; ++copied_) {
        copy(to_.part(offset_of(copied_), length_of(copied_)), pinned(copied_), piece(copied_).copy);
        counts_.staged_bytes += length_of(copied_);
      }
    }
    while (through_ < copied_ && piece(through_).copy.over()) ++through_;
  } catch (const Error& e) {
    failure_ = status_of(e);
  }
  if (!goes_to_device() || !failure_.ok()) through_ = copied_ = here_;
  if (through_ == count_) close(failure_);
}

void IncomingTransfer::copy_from_peer() {
  TransferEvent& copied = pieces_[0].copy;
  try {
    if (copied_ == 0) {
      copied_ = 1;
      copy(to_.part(0, bytes_), peer_memory_, copied);
      counts_.peer_copied_bytes += bytes_;
    }
    if (!copied.over()) return;
  } catch (const Error& e) {
    failure_ = status_of(e);
  }
  close(failure_);
}

}  // namespace sinew

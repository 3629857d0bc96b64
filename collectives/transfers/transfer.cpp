#include <algorithm>
#include <exception>
#include <utility>

#include <sinew/collectives/transfers/transfer.hpp>
#include <sinew/core/log.hpp>

namespace sinew {

bool TransferEvent::over() {
  if (runtime_ == nullptr) return true;
  try {
    if (!runtime_->query(event_)) return false;
  } catch (const Error&) {
    drop();
    throw;
  }
  drop();
  return true;
}

DeviceTransfer::~DeviceTransfer() {
  if (pinned_.data != nullptr) means_.pool->give_back(pinned_);
}

void DeviceTransfer::send_on(Endpoint& endpoint, ConstBuffer from, UserMessageKind kind, TransferPart& part) {
  part.status = {};
  part.pending = true;
  part.on = &endpoint;
  endpoint.send(from, route_.tag(number_, kind), route_.note, part);
}

void DeviceTransfer::receive_on(Endpoint& endpoint, Buffer to, UserMessageKind kind, TransferPart& part) {
  part.status = {};
  part.note = route_.note;
  part.pending = true;
  part.on = &endpoint;
  endpoint.recv({to, nullptr, {}}, route_.tag(number_, kind), part);
}

void DeviceTransfer::say(TransferWord word, UserMessageKind kind) {
  Said& said = said_[words_said_++];
  said.word = static_cast<std::uint64_t>(word);
  send({reinterpret_cast<const std::byte*>(&said.word), sizeof(said.word)}, kind, said.part);
}

std::optional<TransferWord> DeviceTransfer::word(const TransferPart& part, const std::uint64_t& value) const {
  if (part.pending) return std::nullopt;
  part.status.require();
  if (part.bytes != sizeof(value)) throw Error(Code::Mismatch, "the peer's answer is of another protocol");
  return static_cast<TransferWord>(value);
}

template <class F>
void DeviceTransfer::for_each_part(F&& visit) {
  visit(details_part_);
  visit(direct_part_);
  for (Said& s : said_) visit(s.part);
  for (Piece& p : pieces_) visit(p.part);
  for (std::size_t i = 0; TransferPart* part = own_parts(i); ++i) visit(*part);
}

bool DeviceTransfer::is_quiet() noexcept {
  bool quiet = true;
  for_each_part([&](const TransferPart& part) { quiet = quiet && !part.pending; });
  return quiet;
}

/// A copy whose end the device cannot tell any more counts as over.
bool DeviceTransfer::copies_are_over() noexcept {
  return std::ranges::all_of(pieces_, [](Piece& p) {
    try {
      return p.copy.over();
    } catch (const Error&) {
      return true;
    }
  });
}

void DeviceTransfer::finish(Status status) noexcept {
  Completion* done = std::exchange(done_, nullptr);
  if (done == nullptr) return;
  done->note = note_;
  done->bytes = bytes_;
  done->finish(std::move(status));
}

void DeviceTransfer::close(Status status) noexcept {
  if (closing_) return;
  closing_ = true;
  end_ = std::move(status);
}

void DeviceTransfer::give_up(Status status) noexcept {
  close(std::move(status));
  if (std::exchange(gives_up_, true)) return;
  for_each_part([&](TransferPart& part) {
    if (part.pending && !part.is_kept) part.on->cancel(part);
  });
}

void DeviceTransfer::end(const Status& reason) noexcept { give_up(reason); }

void DeviceTransfer::cut(std::uint64_t bytes) noexcept {
  bytes_ = bytes;
  piece_bytes_ = piece_bytes_of(bytes);
  count_ = (bytes - 1) / piece_bytes_ + 1;
}

std::size_t DeviceTransfer::length_of(std::uint64_t index) const noexcept {
  return std::min(piece_bytes_, bytes_ - offset_of(index));
}

bool DeviceTransfer::take_pinned() {
  if (pinned_.data != nullptr) return true;
  if (const auto memory = means_.pool->take()) pinned_ = *memory;
  return pinned_.data != nullptr;
}

void DeviceTransfer::copy(Buffer to, ConstBuffer from, TransferEvent& over) {
  means_.runtime->copy_async(to, from, means_.stream);
  try {
    over.record(*means_.runtime, means_.stream);
  } catch (const Error&) {
    try {
      over.record(*means_.runtime, means_.stream);  // the copy must still come to its end
    } catch (const Error& again) {
      log::info("a copy of device memory has no event: {}", again.what());
    }
    throw;
  }
}

bool DeviceTransfer::connect_direct() noexcept {
  try {
    direct_ = &means_.connect(route_.world_rank, route_.direct);
  } catch (const std::exception& e) {
    log::info("messages to rank {} do not go over the transport that takes device memory: {}", route_.peer, e.what());
  }
  return direct_ != nullptr;
}

bool DeviceTransfer::advance() noexcept {
  if (!closing_) {
    try {
      step();
    } catch (const std::exception& e) {
      give_up(status_of(e));
    }
  }
  if (!closing_ || !copies_are_over()) return false;
  if (!std::exchange(has_taken_leave_, true)) {
    try {
      take_leave();
    } catch (const std::exception& e) {
      log::info("a long message of device memory: {}", e.what());
    }
  }
  if (!uses_buffer()) finish(end_);
  if (!is_quiet()) return false;
  finish(end_);
  return true;
}

}  // namespace sinew

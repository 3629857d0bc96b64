#include <algorithm>

#include <sinew/transports/tcp/outgoing.hpp>

namespace sinew::tcp {

std::size_t Outgoing::frame_bytes(const Send& s) const noexcept {
  std::size_t bytes = kDataFrameBytes;
  if (rails_ > 1) {
    const std::size_t share = s.left / (2 * rails_);
    bytes = std::clamp(share - share % kLeastFrameBytes, kLeastFrameBytes, kRailFrameBytes);
  }
  bytes = std::max<std::size_t>(bytes - bytes % s.granule, s.granule);
  return std::min(bytes, s.left);
}

Piece Outgoing::next() {
  if (!again_.empty()) {
    const Piece piece = again_.front();
    again_.pop_front();
    return piece;
  }
  Completion& c = *turns_.pop();
  Send& s = c.as<Send>();
  const Piece piece{&c, s.receiver, s.from + s.at, s.at, frame_bytes(s)};
  s.at += piece.bytes;
  s.left -= piece.bytes;
  if (s.left != 0) turns_.push(c);
  return piece;
}

std::optional<std::size_t> Outgoing::remove(Completion& send) {
  bool was_here = turns_.remove(send);
  std::size_t bytes = send.as<Send>().left;
  std::erase_if(again_, [&](const Piece& p) {
    if (p.send != &send) return false;
    was_here = true;
    bytes += p.bytes;
    return true;
  });
  return was_here ? std::optional(bytes) : std::nullopt;
}

void Outgoing::clear() noexcept {
  turns_ = {};
  again_.clear();
}

}  // namespace sinew::tcp

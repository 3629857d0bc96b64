#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>

namespace sinew::parallel {
namespace {

void require(std::int64_t length, int ranks) {
  if (length < 0 || ranks < 1)
    throw Error(Code::InvalidArgument,
                fmt::format("sequence of {} positions on {} ranks: expected 0 or more on 1 or more", length, ranks));
}

/// Those that have positions; neighbours are one piece.
std::vector<Rows> joined(const std::vector<Rows>& pieces) {
  std::vector<Rows> all;
  for (const Rows& piece : pieces) {
    if (piece.count() == 0) continue;
    if (!all.empty() && all.back().last == piece.first) {
      all.back().last = piece.last;
    } else {
      all.push_back(piece);
    }
  }
  return all;
}

}  // namespace

SequenceCut SequenceCut::contiguous(std::int64_t length, int ranks) {
  require(length, ranks);
  std::vector<std::vector<Rows>> pieces;
  for (int r = 0; r < ranks; ++r) pieces.push_back(joined({rows_of({}, r, ranks, length)}));
  return {length, std::move(pieces)};
}

SequenceCut SequenceCut::zig_zag(std::int64_t length, int ranks) {
  require(length, ranks);
  std::vector<std::vector<Rows>> pieces;
  for (int r = 0; r < ranks; ++r)
    pieces.push_back(joined({rows_of({}, r, 2 * ranks, length), rows_of({}, 2 * ranks - 1 - r, 2 * ranks, length)}));
  return {length, std::move(pieces)};
}

std::int64_t SequenceCut::tokens(int rank) const noexcept {
  std::int64_t sum = 0;
  for (const Rows& piece : pieces_[static_cast<std::size_t>(rank)]) sum += piece.count();
  return sum;
}

std::int64_t SequenceCut::most_tokens() const noexcept {
  std::int64_t most = 0;
  for (int r = 0; r < ranks(); ++r) most = std::max(most, tokens(r));
  return most;
}

std::vector<std::int64_t> SequenceCut::positions(int rank) const {
  std::vector<std::int64_t> all;
  for (const Rows& piece : pieces(rank)) {
    for (std::int64_t p = piece.first; p < piece.last; ++p) all.push_back(p);
  }
  return all;
}

std::int64_t SequenceCut::pairs(int rank, bool causal) const noexcept {
  if (!causal) return tokens(rank) * length_;
  std::int64_t sum = 0;
  for (const Rows& piece : pieces_[static_cast<std::size_t>(rank)])
    sum += (piece.first + 1 + piece.last) * piece.count() / 2;  // position p sees p + 1
  return sum;
}

}  // namespace sinew::parallel

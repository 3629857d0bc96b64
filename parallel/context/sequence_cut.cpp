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

/// In ascending order, those that have positions; neighbours are one piece.
std::vector<Rows> joined_pieces(std::vector<Rows> pieces) {
  std::ranges::sort(pieces, {}, &Rows::first);
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

/// Deals what does not divide to ranks in turn, one position to each.
class Dealer {
 public:
  explicit Dealer(int ranks) : ranks_(ranks) {}

  /// Lengths of the 2 P pieces of a document.
  std::vector<std::int64_t> zig_zag(std::int64_t length) {
    const auto pieces = 2 * static_cast<std::size_t>(ranks_);
    std::vector<std::int64_t> lengths(pieces, length / (2 * ranks_));
    std::vector<bool> has_one(static_cast<std::size_t>(ranks_), false);
    for (std::int64_t rest = length % (2 * ranks_); rest > 0; --rest) {
      const auto rank = static_cast<std::size_t>(next_);
      ++lengths[has_one[rank] ? pieces - 1 - rank : rank];
      has_one[rank] = true;
      next_ = (next_ + 1) % ranks_;
    }
    return lengths;
  }

 private:
  int ranks_, next_ = 0;
};

}  // namespace

SequenceCut SequenceCut::contiguous(std::int64_t length, int ranks) {
  require(length, ranks);
  std::vector<std::vector<Rows>> pieces;
  for (int r = 0; r < ranks; ++r) pieces.push_back(joined_pieces({rows_of({}, r, ranks, length)}));
  return {length, std::move(pieces)};
}

SequenceCut SequenceCut::zig_zag(std::int64_t length, int ranks) { return zig_zag(std::vector{length}, ranks); }

SequenceCut SequenceCut::zig_zag(const std::vector<std::int64_t>& documents, int ranks) {
  std::vector<std::vector<Rows>> pieces(static_cast<std::size_t>(std::max(ranks, 0)));
  Dealer dealer(ranks);
  std::int64_t at = 0;
  for (const std::int64_t length : documents) {
    require(length, ranks);
    const std::vector<std::int64_t> lengths = dealer.zig_zag(length);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      pieces[std::min(i, lengths.size() - 1 - i)].push_back({at, at + lengths[i]});
      at += lengths[i];
    }
  }
  require(at, ranks);
  for (std::vector<Rows>& of_rank : pieces) of_rank = joined_pieces(std::move(of_rank));
  return {at, std::move(pieces)};
}

SequenceCut SequenceCut::joined(int each) const {
  if (each < 1 || ranks() % each != 0)
    throw Error(Code::InvalidArgument,
                fmt::format("sequence on {} ranks, joined by {}: expected a divisor of {}", ranks(), each, ranks()));
  std::vector<std::vector<Rows>> pieces(static_cast<std::size_t>(ranks() / each));
  for (int r = 0; r < ranks(); ++r) {
    std::vector<Rows>& to = pieces[static_cast<std::size_t>(r / each)];
    to.insert(to.end(), this->pieces(r).begin(), this->pieces(r).end());
  }
  for (std::vector<Rows>& of_rank : pieces) of_rank = joined_pieces(std::move(of_rank));
  return {length_, std::move(pieces)};
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

std::int64_t SequenceCut::pairs(int rank, const AttentionMask& mask) const noexcept {
  std::int64_t sum = 0;
  for (const Rows& piece : pieces_[static_cast<std::size_t>(rank)]) sum += mask.pairs(piece, length_);
  return sum;
}

}  // namespace sinew::parallel

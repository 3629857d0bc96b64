#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/carry_requests.hpp>
#include <sinew/parallel/checkpoint/index/shared_elements.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kRoundBytes = std::size_t{32} << 20;  // of all ranks together, each way

/// The parts of one holder, by the names of their items.
using Held = std::multimap<std::string_view, std::size_t>;

Held by_name(const std::vector<PartDescription>& parts) {
  Held held;
  for (std::size_t i = 0; i < parts.size(); ++i) held.emplace(parts[i].item.name, i);
  return held;
}

/// A rank's pieces for one other, in rounds that both sides cut alike: as many whole pieces as `most` bytes hold.
class Rounds {
 public:
  Rounds(const std::vector<HeldPiece>& pieces, std::size_t most) {
    std::size_t bytes = most;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (bytes + pieces[i].bytes > most) {
        begins_.push_back(i);
        bytes = 0;
      }
      bytes += pieces[i].bytes;
    }
    begins_.push_back(pieces.size());
  }

  std::size_t count() const { return begins_.size() - 1; }
  std::span<const HeldPiece> of(const std::vector<HeldPiece>& pieces, std::size_t round) const {
    if (round >= count()) return {};
    return std::span(pieces).subspan(begins_[round], begins_[round + 1] - begins_[round]);
  }
  std::size_t first(std::size_t round) const { return begins_[round]; }

 private:
  std::vector<std::size_t> begins_;
};

/// Pieces of up to `most` bytes.
std::vector<CarryRequest> cut(const std::vector<CarryRequest>& requests, std::size_t most) {
  std::vector<CarryRequest> pieces;
  for (const CarryRequest& request : requests) {
    for (std::uint64_t at = 0; at < request.piece.bytes; at += most) {
      const std::uint64_t bytes = std::min<std::uint64_t>(most, request.piece.bytes - at);
      pieces.push_back({{request.piece.part, request.piece.from + at, bytes}, request.to + at});
    }
  }
  return pieces;
}

using PiecesByRank = std::vector<std::vector<HeldPiece>>;

/// The pieces that each rank requests of this one. mine: the pieces that this rank requests of each.
PiecesByRank asked_by_ranks(CallGroup all, const PiecesByRank& mine) {
  constexpr std::size_t kWords = 3;
  std::vector<std::uint64_t> sent, out;
  for (const std::vector<HeldPiece>& pieces : mine) {
    sent.push_back(kWords * pieces.size());
    for (const HeldPiece& p : pieces) out.insert(out.end(), {p.part, p.from, p.bytes});
  }
  std::vector<std::uint64_t> got(sent.size());
  all->all_to_all(sent, got, all.options(kCarryLabel)).get();
  std::vector<std::uint64_t> in(std::accumulate(got.begin(), got.end(), std::uint64_t{0}));
  all->all_to_all_v(out, in, Parts{sent}, Parts{got}, all.options(kCarryLabel)).get();
  PiecesByRank asked;
  const std::uint64_t* at = in.data();
  for (const std::uint64_t words : got) {
    std::vector<HeldPiece>& pieces = asked.emplace_back();
    for (std::uint64_t i = 0; i < words; i += kWords, at += kWords) pieces.push_back({at[0], at[1], at[2]});
  }
  return asked;
}

std::uint64_t bytes_in(std::span<const HeldPiece> pieces) {
  std::uint64_t bytes = 0;
  for (const HeldPiece& p : pieces) bytes += p.bytes;
  return bytes;
}

}  // namespace

CarryRequests carry_requests(int rank, const std::vector<std::vector<PartDescription>>& of_ranks,
                             const std::vector<std::int64_t>& steps, std::int64_t step,
                             std::span<const CheckpointPart> wanted) {
  const std::size_t ranks = of_ranks.size();
  CarryRequests requests;
  requests.of_rank.resize(ranks);
  std::vector<std::vector<ElementRun>> missing;
  for (const CheckpointPart& part : wanted) missing.push_back(runs_of(part.item, part.extent));
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t holder = (static_cast<std::size_t>(rank) + i) % ranks;
    if (steps[holder] != step || std::ranges::all_of(missing, &std::vector<ElementRun>::empty)) continue;
    const Held held = by_name(of_ranks[holder]);
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      const auto [begin, end] = held.equal_range(wanted[w].item.name);
      for (auto at = begin; at != end && !missing[w].empty(); ++at) {
        const PartDescription& part = of_ranks[holder][at->second];
        if (part.item != wanted[w].item)
          throw Error(Code::InvalidArgument, fmt::format("rank {} holds {}; wanted is {}", holder,
                                                         part.item.to_string(), wanted[w].item.to_string()));
        const auto shared = shared_elements(runs_of(part.item, part.extent), missing[w]);
        const std::size_t element = size_of(part.item.dtype);
        const auto bytes = [element](std::int64_t n) { return static_cast<std::size_t>(n) * element; };
        for (const SharedElements& s : shared)
          requests.of_rank[holder].push_back(
              {{at->second, bytes(s.stored_at), bytes(s.count)}, wanted[w].buffer.data + bytes(s.wanted_at)});
        missing[w] = without(missing[w], shared);
      }
    }
  }
  requests.is_whole = std::ranges::all_of(missing, &std::vector<ElementRun>::empty);
  return requests;
}

void fulfil(CallGroup all, const CarryRequests& requests, std::span<const CheckpointPart> held) {
  const auto ranks = static_cast<std::size_t>(all->size());
  const auto self = static_cast<std::size_t>(all->rank());
  const auto from = [&](const HeldPiece& p) { return held[p.part].buffer.data + p.from; };
  for (const CarryRequest& request : requests.of_rank[self])
    std::memcpy(request.to, from(request.piece), request.piece.bytes);

  const std::size_t most = std::max(kRoundBytes / ranks, std::size_t{1} << 12);
  std::vector<std::vector<CarryRequest>> mine(ranks);
  PiecesByRank mine_asked(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r != self) mine[r] = cut(requests.of_rank[r], most);
    for (const CarryRequest& request : mine[r]) mine_asked[r].push_back(request.piece);
  }
  const PiecesByRank asked = asked_by_ranks(all, mine_asked);
  std::vector<Rounds> in_rounds, out_rounds;
  std::array<std::uint64_t, 1> rounds{0};
  for (std::size_t r = 0; r < ranks; ++r) {
    in_rounds.emplace_back(mine_asked[r], most);
    out_rounds.emplace_back(asked[r], most);
    rounds[0] = std::max<std::uint64_t>({rounds[0], in_rounds[r].count(), out_rounds[r].count()});
  }
  all->all_reduce(rounds, ReduceOp::Max, all.options(kCarryLabel)).get();
  std::vector<std::byte> out, in;
  for (std::size_t round = 0; round < rounds[0]; ++round) {
    std::vector<std::uint64_t> sent, got;
    out.clear();
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::span<const HeldPiece> pieces = out_rounds[r].of(asked[r], round);
      for (const HeldPiece& p : pieces) out.insert(out.end(), from(p), from(p) + p.bytes);
      sent.push_back(bytes_in(pieces));
      got.push_back(bytes_in(in_rounds[r].of(mine_asked[r], round)));
    }
    in.resize(std::accumulate(got.begin(), got.end(), std::uint64_t{0}));
    all->all_to_all_v({out.data(), out.size()}, {in.data(), in.size()}, DType::U8, Parts{sent}, Parts{got},
                      all.options(kCarryLabel))
        .get();
    const std::byte* at = in.data();
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::size_t count = in_rounds[r].of(mine_asked[r], round).size();
      for (std::size_t i = 0; i < count; ++i) {
        const CarryRequest& request = mine[r][in_rounds[r].first(round) + i];
        std::memcpy(request.to, at, request.piece.bytes);
        at += request.piece.bytes;
      }
    }
  }
}

}  // namespace sinew::parallel

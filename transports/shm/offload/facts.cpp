#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/config.hpp>
#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/offload/facts.hpp>

namespace sinew::shm {
namespace {

/// A root runs ahead of those who take from it, as long as what it shows finds room: half of what an all_reduce takes
/// to move bytes, in which everybody waits for everybody, and most of the call itself, as nobody answers.
constexpr double kOneWay = 0.5;
constexpr double kCallAhead = 0.75;
/// Another rank's flag line to look at.
constexpr Seconds kPerRank = 60e-9;

/// If Facts::spread is larger, the measurement was too noisy.
constexpr double kMostSpread = 0.2;

/// Bytes that one rank reads from others, by the cheapest way there is.
double moved_bytes(const CollectiveDesc& desc, int ranks) noexcept {
  const auto n = static_cast<double>(desc.count * size_of(desc.dtype));
  const double others = ranks - 1;
  switch (desc.collective) {
    case Collective::AllReduce: return 2 * n * others / ranks;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Gather:
    case Collective::Reduce: return n * others;
    case Collective::Broadcast:
    case Collective::Scatter: return n;
    case Collective::AllGatherV:
    case Collective::AllToAllV:
    case Collective::GatherV:
    case Collective::ScatterV: return static_cast<double>(desc.bytes(ranks)) * others / ranks;
    default: return 0;
  }
}

/// Linear in both logarithms between the knots, the last slope's bandwidth beyond.
Seconds interpolate(const Facts& facts, double bytes) noexcept {
  const auto& x = Facts::kKnotBytes;
  const auto& y = facts.knot_seconds;
  if (bytes <= x[0]) return y[0];
  if (bytes >= x[Facts::kKnots - 1]) return y[Facts::kKnots - 1] * bytes / x[Facts::kKnots - 1];
  std::size_t i = 1;
  while (bytes > x[i]) ++i;
  const double t = std::log(bytes / x[i - 1]) / std::log(x[i] / x[i - 1]);
  return y[i - 1] * std::pow(y[i] / y[i - 1], t);
}

/// The factor of Facts::apart for this length. Up to a quarter of the first measured length it is 1, as short calls
/// cost as much as an all_reduce.
double apart_factor(const CollectiveDesc& desc, const Facts& facts) noexcept {
  const Collective like = desc.collective == Collective::Scatter ? Collective::Broadcast : desc.collective;
  const auto at = std::ranges::find(Facts::kTimedApart, like) - Facts::kTimedApart.begin();
  const auto block = static_cast<double>(desc.count * size_of(desc.dtype));
  constexpr auto kFirst = static_cast<double>(Facts::kApartBytes[0]),
                 kSecond = static_cast<double>(Facts::kApartBytes[1]);
  if (at == std::ssize(Facts::kTimedApart) || block <= kFirst / 4) return 1;
  const auto [first, second] = facts.apart[static_cast<std::size_t>(at)];
  if (block >= kSecond) return second;
  const auto between = [block](double low, double of_low, double high, double of_high) {
    return of_low + (of_high - of_low) * std::log(block / low) / std::log(high / low);
  };
  return block < kFirst ? between(kFirst / 4, 1, kFirst, first) : between(kFirst, first, kSecond, second);
}

}  // namespace

bool shows(const CollectiveDesc& desc, int rank) noexcept {
  switch (desc.collective) {
    case Collective::Barrier: return false;
    case Collective::Broadcast:
    case Collective::Scatter: return rank == desc.root;
    case Collective::Gather: return rank != desc.root;
    case Collective::Reduce: return rank != desc.root || desc.op == ReduceOp::PreMulSum;
    default: return true;
  }
}

bool reads_directly(const Facts& facts, Collective collective, std::uint64_t whole, std::uint64_t block) noexcept {
  const bool exchanges = collective == Collective::AllGather || collective == Collective::AllToAll;
  return of_family(facts.read_in_place, collective).contain(exchanges ? block : whole);
}

Protocol protocol_of(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept {
  return protocol_of(desc, ranks, facts, contribution_to(desc, ranks).shown);
}

Protocol protocol_of(const CollectiveDesc& desc, int ranks, const Facts& facts, std::uint64_t shown) noexcept {
  if (is_v_form(desc.collective)) return Protocol::Parts;
  if (shown <= kInlineBytes) return Protocol::Inline;
  if (shown <= kLinesBytes) return Protocol::Lines;
  if (is_from_root(desc.collective))
    return shown <= kSlotMostBytes ? Protocol::Slot : Protocol::Chunks;  // with Slot the root need not wait for readers
  const std::uint64_t most = std::min<std::uint64_t>(of_family(facts.slot_bytes, desc.collective), kSlotMostBytes);
  const auto sharing = static_cast<std::uint64_t>(family_of(desc.collective) == Family::Sum ? ranks : 2);
  return shown <= most * 2 / sharing ? Protocol::Slot : Protocol::Chunks;
}

Seconds predict(const CollectiveDesc& desc, int ranks, const Facts& facts) noexcept {
  const std::uint64_t shown = contribution_to(desc, ranks).shown;
  const double turns = std::max(1.0, static_cast<double>(ranks) / facts.cores);
  const Seconds waiting = (ranks - 2) * kPerRank + (turns > 1 ? ranks * kSchedulerTurn : 0);
  const bool runs_ahead = is_from_root(desc.collective) && shown <= kSlotMostBytes;
  const Seconds moving = interpolate(facts, moved_bytes(desc, ranks));
  const Seconds call = facts.knot_seconds[0];
  const Seconds as_a_sum = runs_ahead ? kCallAhead * call + kOneWay * (moving - call) : moving;
  return waiting + turns * as_a_sum * apart_factor(desc, facts);
}

std::string describe(const CollectiveDesc& desc, int ranks, const Facts& facts, Protocol protocol) {
  switch (protocol) {
    case Protocol::Inline: return "flag line";
    case Protocol::Lines: return "behind the flag line";
    case Protocol::Tree:
    case Protocol::TreeChunks: return "tree";
    case Protocol::Slot: return "one shot";
    case Protocol::Parts: return "parts, by each rank behind its flag line, staged or read in place";
    case Protocol::Chunks: break;
  }
  const bool in_place =
      reads_directly(facts, desc.collective, contribution_to(desc, ranks).given, desc.count * size_of(desc.dtype));
  return fmt::format("{} chunks, {}", format_bytes(of_family(facts.chunk_bytes, desc.collective)),
                     in_place ? "read in place" : "staged");
}

std::string doubt_in(const Facts& facts) {
  if (facts.disturbed != 0) return "other programs had the cores while shared memory was measured";
  if (facts.spread <= kMostSpread) return {};
  return fmt::format("repetitions of measurements of shared memory lay {:.0f} % apart", facts.spread * 100);
}

std::string to_string(const Facts& facts) {
  const auto length = [](std::uint64_t bytes) {
    return bytes == Lengths::kNever ? std::string("never") : format_bytes(bytes);
  };
  const auto in_place = [&](const Lengths& l) {
    if (l.empty()) return std::string("never");
    return l.to == Lengths::kNever ? "from " + length(l.from)
                                   : fmt::format("from {} to below {}", length(l.from), length(l.to));
  };
  constexpr std::array<const char*, kFamilies> kNames{"from a root", "sums", "reduce_scatter", "gathers", "all_to_all"};
  std::string text;
  for (std::size_t f = 0; f < kFamilies; ++f)
    text += fmt::format("{}: one shot to {}, chunks of {}, read in place {}; ", kNames[f],
                        length(f == 0 ? kSlotMostBytes : facts.slot_bytes[f]), length(facts.chunk_bytes[f]),
                        in_place(facts.read_in_place[f]));
  return text + fmt::format(
                    "messages: read in place {}; copies past the caches from {}, string copies from {}, shared "
                    "cache to {}",
                    in_place(facts.messages_in_place), length(facts.stream_from_bytes), length(facts.string_from_bytes),
                    length(facts.demoted_bytes));
}

Bytes encode(const Facts& facts) {
  Bytes bytes(sizeof facts);
  std::memcpy(bytes.data(), &facts, sizeof facts);
  return bytes;
}

bool are_facts(const Bytes& bytes) noexcept {
  std::uint32_t version = 0;
  if (bytes.size() != sizeof(Facts)) return false;
  std::memcpy(&version, bytes.data() + offsetof(Facts, version), sizeof version);
  return version == Facts{}.version;
}

Facts decode_facts(const Bytes& bytes) noexcept {
  Facts facts;
  if (are_facts(bytes)) std::memcpy(&facts, bytes.data(), sizeof facts);
  return facts;
}

}  // namespace sinew::shm

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include <sinew/transports/shm/memory/direct_read.hpp>
#include <sinew/transports/shm/offload/parts.hpp>

namespace sinew::shm {
namespace {

constexpr std::uint64_t kBytesPerStep = 1 << 20;

void assign(std::vector<Range>& row, std::span<const Extent> parts, std::uint64_t each) {
  row.clear();
  for (const Extent& part : parts) row.push_back({part.first * each, part.count * each});
}

/// Fills a row with the same part for all ranks, or for the rank `only`. only < 0: for all ranks.
void assign_one(std::vector<Range>& row, int ranks, int only, Range part) {
  row.assign(static_cast<std::size_t>(ranks), only < 0 ? part : Range{});
  if (only >= 0) row[static_cast<std::size_t>(only)] = part;
}

void assign_shared(std::vector<Range>& row, const CollectiveDesc& desc, std::uint64_t each) {
  row.clear();
  std::uint64_t next = 0;
  for (std::size_t r = 0; r < desc.counts.size(); ++r) {
    const std::uint64_t first = desc.displacements.empty() ? next : desc.displacements[r];
    row.push_back({first * each, desc.counts[r] * each});
    next = first + desc.counts[r];
  }
}

}  // namespace

std::uint64_t CallParts::given_bytes(const PendingCall& call, int rank) const noexcept {
  if (call.collective == Collective::AllGatherV) return in_lines(gives[static_cast<std::size_t>(rank)].bytes);
  std::uint64_t bytes = 0;
  for (std::size_t r = 0; r < gives.size(); ++r) bytes += static_cast<int>(r) == rank ? 0 : in_lines(gives[r].bytes);
  return bytes;
}

std::uint64_t CallParts::end_of_gives() const noexcept {
  std::uint64_t end = 0;
  for (const Range& p : gives) end = std::max(end, p.offset + p.bytes);
  return end;
}

void lay_out(const Call& call, const PendingCall& pending, int rank, int ranks, CallParts& parts) {
  const CollectiveDesc& desc = call.desc;
  const std::uint64_t each = size_of(desc.dtype);
  parts.element_bytes = each;
  parts.gives.clear();
  parts.takes.clear();
  parts.copy.clear();
  parts.swaps = false;
  switch (desc.collective) {
    case Collective::AllGatherV:
      assign_shared(parts.takes, desc, each);
      assign_one(parts.gives, ranks, -1, {0, parts.takes[static_cast<std::size_t>(rank)].bytes});
      return;
    case Collective::AllToAllV:
      assign(parts.gives, call.in_parts, each);
      assign(parts.takes, call.out_parts, each);
      parts.swaps = pending.in == pending.out;
      if (parts.swaps && parts.given_bytes(pending, rank) > kSlotMostBytes)
        parts.copy.assign(pending.in, pending.in + parts.end_of_gives());
      return;
    case Collective::GatherV:
      assign_one(parts.gives, ranks, desc.root, {0, call.in_parts[0].count * each});
      if (rank == desc.root) assign(parts.takes, call.out_parts, each);
      return;
    case Collective::ScatterV:
      assign_one(parts.takes, ranks, desc.root, {0, call.out_parts[0].count * each});
      if (rank == desc.root) assign(parts.gives, call.in_parts, each);
      return;
    default: return;  // is no v-form, or not run so
  }
}

void PartReader::begin(const CallParts& parts) {
  fetched_ = parts.takes.empty() ? members_.count() : 0;
  done_ = 0;
  status_ = {};
}

int PartReader::step(const PendingCall& call, const CallParts& parts) noexcept {
  std::uint64_t left = kBytesPerStep;
  while (!finished() && left > 0) {
    const int rank = next();
    const bool gives = call.collective != Collective::ScatterV || rank == call.root;
    if (gives) left -= fetch(call, parts, rank, left);
    if (!status_.ok() || (gives && done_ < parts.takes[static_cast<std::size_t>(rank)].bytes)) continue;
    ++fetched_;
    done_ = 0;
  }
  return 1;
}

/// Fetches at most `most` bytes of a rank's part and returns how many. status_ tells if this has failed.
std::uint64_t PartReader::fetch(const PendingCall& call, const CallParts& parts, int rank,
                                std::uint64_t most) noexcept {
  const int me = members_.rank();
  const Range& to = parts.takes[static_cast<std::size_t>(rank)];
  const std::uint64_t length = std::min(most, to.bytes - done_);
  std::byte* const target = call.out + to.offset + done_;
  done_ += length;
  if (rank == me) {
    const std::byte* const own = call.in + parts.gives[static_cast<std::size_t>(me)].offset + done_ - length;
    if (own != target && length > 0) std::memmove(target, own, length);
    return length;
  }
  const Slot& slot = members_.slot_of(rank, call.sequence);
  Places places;
  std::memcpy(&places, slot.line.payload.data(), sizeof places);
  PartEntry entry;
  std::memcpy(&entry, slot.payload.data() + static_cast<std::size_t>(me) * sizeof entry, sizeof entry);
  if (entry.bytes != to.bytes) {
    status_ = wrong_length(rank, entry.bytes / parts.element_bytes, to.bytes / parts.element_bytes);
    return 0;
  }
  if (length == 0) return 0;
  const Member& owner = members_[rank];
  const std::uint64_t at = entry.place + done_ - length;
  if (places.in_access != Access::Address) {
    std::memcpy(target, owner.segment + at, length);
  } else if (owner.same_process) {
    std::memcpy(target, reinterpret_cast<const std::byte*>(at), length);
  } else if (const int error = read_process(owner.pid, target, at, length); error != 0) {
    status_ = members_.unread(rank, error);
  }
  return length;
}

Status PartReader::wrong_length(int rank, std::uint64_t sent, std::uint64_t expected) const {
  return {Code::Mismatch,
          fmt::format("{} sent {} {} elements, which expected {}", members_.group().rank_text(rank),
                      members_.group().rank_text(members_.rank()), sent, expected),
          rank};
}

}  // namespace sinew::shm

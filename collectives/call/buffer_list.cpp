#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/call/buffer_list.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

std::uintptr_t address(Buffer b) noexcept { return reinterpret_cast<std::uintptr_t>(b.data); }

[[noreturn]] void reject(std::string_view call, const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", call, why));
}

}  // namespace

BufferList list_of(std::string_view call, std::string_view name, std::span<const Buffer> buffers, DType dtype,
                   int ranks) {
  if (buffers.size() != static_cast<std::size_t>(ranks)) {
    reject(call, fmt::format("{} has {} buffers, expected {}: one per rank", name, buffers.size(), ranks));
  }
  BufferList list;
  std::uintptr_t first = UINTPTR_MAX;
  std::uintptr_t last = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string each = fmt::format("{}[{}]", name, i);
    list.counts.push_back(arguments::elements(call, each, buffers[i], dtype));
    if (buffers[i].place.kind != MemoryKind::Host) {
      reject(call, fmt::format("{} is memory of a device; lists are of memory of the host: give one buffer", each));
    }
    if (buffers[i].bytes == 0) continue;
    first = std::min(first, address(buffers[i]));
    last = std::max(last, address(buffers[i]) + buffers[i].bytes);
  }
  if (last == 0) first = 0;
  const std::size_t each = size_of(dtype);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::uintptr_t distance = buffers[i].bytes == 0 ? 0 : address(buffers[i]) - first;
    if (distance % each != 0) {
      reject(call, fmt::format("{}[{}] lies {} bytes behind another buffer of the list; expected a multiple of the {} "
                               "bytes of an element of {}",
                               name, i, distance, each, name_of(dtype)));
    }
    list.displacements.push_back(distance / each);
  }
  list.whole = {reinterpret_cast<std::byte*>(first), last - first, {}};
  return list;
}

void require_apart(std::string_view call, std::span<const Buffer> read, std::span<const Buffer> written) {
  struct Range {
    std::uintptr_t first;
    std::uintptr_t last;
    bool written;
  };
  std::vector<Range> ranges;
  const auto add = [&](std::span<const Buffer> buffers, bool are_written) {
    for (const Buffer& b : buffers) {
      if (b.bytes > 0) ranges.push_back({address(b), address(b) + b.bytes, are_written});
    }
  };
  add(read, false);
  add(written, true);
  std::ranges::sort(ranges, {}, &Range::first);
  std::uintptr_t read_to = 0;
  std::uintptr_t written_to = 0;
  for (const Range& r : ranges) {
    const bool shares = r.first < written_to || (r.written && r.first < read_to);
    if (shares) arguments::reject_overlap(call, "a buffer that is written overlaps another one");
    (r.written ? written_to : read_to) = std::max(r.written ? written_to : read_to, r.last);
  }
}

Buffer readable(ConstBuffer b) noexcept { return {const_cast<std::byte*>(b.data), b.bytes, b.place}; }

std::vector<Buffer> readable(std::span<const ConstBuffer> buffers) {
  std::vector<Buffer> all;
  all.reserve(buffers.size());
  for (const ConstBuffer& b : buffers) all.push_back(readable(b));
  return all;
}

bool is_in_place(ConstBuffer single, std::span<const Buffer> list, int rank) noexcept {
  const Buffer own = list[static_cast<std::size_t>(rank)];
  return single.data == own.data && own.bytes > 0;
}

void require_own(std::string_view call, std::string_view name, ConstBuffer single, std::string_view list_name,
                 const BufferList& list, DType dtype, int rank) {
  const std::uint64_t own = list.counts[static_cast<std::size_t>(rank)];
  const std::uint64_t count = arguments::elements(call, name, single, dtype);
  if (count != own) arguments::reject_own_part(call, name, count, list_name, own);
  if (single.place.kind != MemoryKind::Host) arguments::reject_places(call, single.place, list.whole.place);
}

}  // namespace sinew

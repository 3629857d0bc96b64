#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/shared_segment.hpp>

namespace sinew {
namespace {

constexpr std::size_t kLeastAddressSpace = std::size_t{16} << 20;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) noexcept { return (value + to - 1) / to * to; }

/// Returns the largest size up to `wanted` that the limits of this process allow. A process maps the segments of all
/// its peers, so each segment gets a part of RLIMIT_AS. A file above RLIMIT_FSIZE would raise SIGXFSZ instead of an
/// error.
std::size_t within_limits(std::size_t wanted, int ranks) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    wanted = std::min<std::size_t>(wanted, limit.rlim_cur / std::max<rlim_t>(16, 2 * static_cast<rlim_t>(ranks)));
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    wanted = std::min<std::size_t>(wanted, limit.rlim_cur);
  return wanted / page_bytes() * page_bytes();
}

std::byte* map_whole(int memfd, std::size_t bytes) noexcept {
  if (ftruncate(memfd, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

SharedSegment::SharedSegment(std::size_t address_space_bytes, int ranks) : memfd_(memfd_create("sinew", MFD_CLOEXEC)) {
  if (!memfd_) {
    throw_errno("memfd_create for the memory that peers on this host read (a sandbox must allow this system call)");
  }
  bytes_ = within_limits(round_up(address_space_bytes, page_bytes()), ranks);
  while (!base_) {
    base_ = map_whole(memfd_.get(), bytes_);
    if (base_) break;
    const int why = errno;
    if (bytes_ / 2 < kLeastAddressSpace)
      throw_errno(fmt::format("mapping {} bytes of address space for the memory that peers on this host read", bytes_),
                  why);
    bytes_ = bytes_ / 2 / page_bytes() * page_bytes();
  }
  free_.emplace(0, bytes_);
}

SharedSegment::~SharedSegment() { munmap(base_, bytes_); }

std::byte* SharedSegment::allocate(std::size_t bytes, std::size_t alignment) {
  assert(alignment >= kCacheLine && (alignment & (alignment - 1)) == 0);
  const std::scoped_lock lock(mutex_);
  if (bytes > bytes_) throw_full(bytes);  // before rounding up can overflow
  const std::uint64_t length = round_up(std::max<std::size_t>(bytes, 1), kCacheLine);
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [start, hole_bytes] = *hole;
    const std::uint64_t offset = round_up(start, alignment);
    const std::uint64_t skipped = offset - start;
    if (hole_bytes < skipped || hole_bytes - skipped < length) continue;
    free_.erase(hole);
    if (skipped > 0) free_.emplace(start, skipped);
    if (hole_bytes > skipped + length) free_.emplace(offset + length, hole_bytes - skipped - length);
    allocated_.emplace(offset, length);
    return base_ + offset;
  }
  throw_full(bytes);
}

void SharedSegment::throw_full(std::size_t bytes) const {
  throw Error(
      Code::System,
      fmt::format("{} bytes asked of this process's shared memory: {} of its {} bytes are taken, and no hole is "
                  "long enough: ask for less, or raise the limits that bound it (ulimit -v, ulimit -f)",
                  bytes, sum_of_allocated(), bytes_));
}

void SharedSegment::release(std::byte* memory) noexcept {
  if (fork_.in_child()) return;
  const std::scoped_lock lock(mutex_);
  const auto block = allocated_.find(offset_of(memory));
  assert(block != allocated_.end());
  std::uint64_t start = block->first;
  std::uint64_t length = block->second;
  allocated_.erase(block);

  // Zero for the next owner: whole pages go back to the kernel, the edges are shared with neighbours.
  const std::uint64_t end = start + length;
  const std::uint64_t first_page = std::min(round_up(start, page_bytes()), end);
  const std::uint64_t last_page = std::max(end / page_bytes() * page_bytes(), first_page);
  std::memset(base_ + start, 0, first_page - start);
  std::memset(base_ + last_page, 0, end - last_page);
  if (last_page > first_page && fallocate(memfd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                          static_cast<off_t>(first_page), static_cast<off_t>(last_page - first_page)))
    std::memset(base_ + first_page, 0, last_page - first_page);

  const auto after = free_.lower_bound(start);
  if (after != free_.begin()) {
    if (const auto before = std::prev(after); before->first + before->second == start) {
      start = before->first;
      length += before->second;
      free_.erase(before);
    }
  }
  if (after != free_.end() && after->first == start + length) {
    length += after->second;
    free_.erase(after);
  }
  free_.emplace(start, length);
}

std::size_t SharedSegment::allocated_bytes() const noexcept {
  const std::scoped_lock lock(mutex_);
  return sum_of_allocated();
}

std::size_t SharedSegment::sum_of_allocated() const noexcept {
  std::size_t sum = 0;
  for (const auto& [offset, length] : allocated_) sum += length;
  return sum;
}

}  // namespace sinew

#include <algorithm>
#include <cstring>
#include <utility>

#include <sinew/parallel/checkpoint/snapshot.hpp>

namespace sinew::parallel {
namespace {

/// Long enough that threads rarely meet, and short enough that a wait for another thread's chunk is below 1 ms.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

void Snapshot::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  memory_.reset();
  capacity_ = 0;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);  // a thread that copies touches it first
  capacity_ = bytes;
}

void Snapshot::begin(std::vector<ConstBuffer> buffers) {
  buffers_ = std::move(buffers);
  ends_.clear();
  std::size_t end = 0;
  for (const ConstBuffer& buffer : buffers_) ends_.push_back(end += buffer.bytes);
  chunks_ = (end + kChunkBytes - 1) / kChunkBytes;
  next_.store(0, std::memory_order_relaxed);
  copied_.store(0, std::memory_order_relaxed);
}

void Snapshot::finish() noexcept {
  for (std::size_t chunk = next_++; chunk < chunks_; chunk = next_++) {
    copy(chunk);
    if (copied_.fetch_add(1, std::memory_order_release) + 1 == chunks_) copied_.notify_all();
  }
  for (std::size_t now = copied_.load(std::memory_order_acquire); now < chunks_;
       now = copied_.load(std::memory_order_acquire))
    copied_.wait(now, std::memory_order_acquire);
}

void Snapshot::copy(std::size_t chunk) noexcept {
  std::size_t at = chunk * kChunkBytes;
  const std::size_t last = std::min(at + kChunkBytes, bytes());
  auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
  for (; at < last; ++number) {
    const ConstBuffer& from = buffers_[number];
    const std::size_t offset = from.bytes - (ends_[number] - at), count = std::min(ends_[number], last) - at;
    if (count > 0) std::memcpy(memory_.get() + at, from.data + offset, count);
    at += count;
  }
}

std::vector<ConstBuffer> Snapshot::copies() const {
  std::vector<ConstBuffer> all;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    all.push_back({memory_.get() + ends_[i] - buffers_[i].bytes, buffers_[i].bytes});
  return all;
}

}  // namespace sinew::parallel

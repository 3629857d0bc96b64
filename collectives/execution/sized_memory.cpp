#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/execution/sized_memory.hpp>

namespace sinew {
namespace {

/// No buffer of a rank is longer, so no block is.
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::ptrdiff_t>::max();

std::uint64_t read_size(const std::byte* from) noexcept {
  std::uint64_t size = 0;
  std::memcpy(&size, from, sizeof size);
  return size;
}

}  // namespace

void SizedMemory::begin(const Executable& executable, ChunkTable& chunks, std::byte* heads) {
  executable_ = &executable;
  chunks_ = &chunks;
  messages_.resize(executable.sized->runs.size());
  for (std::size_t r = 0; r < messages_.size(); ++r) {
    messages_[r].memory = heads + executable.sized->runs[r].head_at;
    messages_[r].bytes = 0;
  }
}

void SizedMemory::end(ScratchPool& pool) noexcept {
  for (Message& m : messages_) pool.give(std::exchange(m.block, {}));
}

Status SizedMemory::lay_out(std::uint32_t chunk, ScratchPool& pool) {
  Message& message = messages_[number(chunk)];
  if (message.bytes > 0) return {};
  const std::uint32_t first = run(chunk).first;
  const std::uint32_t count = run(chunk).count;
  const std::uint64_t each = executable_->element_bytes;
  const std::uint64_t most = kMostBytes / each;
  std::uint64_t next = run(chunk).size_bytes() / each;
  for (std::uint32_t c = first; c < first + count; ++c) {
    ChunkTable::Extent& extent = chunks_->scratch[c];
    if (const std::uint32_t told = executable_->sized->told_in[c]; told != SizedMessages::kNone)
      extent.count = chunks_->scratch[told].count;
    extent.first = next;
    next += std::min(extent.count, most - next);  // for more there is no memory either
  }
  if (const std::uint64_t bytes = next * each; bytes > run(chunk).head_bytes()) {
    try {
      message.block = pool.take(bytes);
    } catch (const std::bad_alloc&) {
      const int rank = executable_->program.rank;
      return {Code::System,
              fmt::format("{} has no memory for a message of {} bytes with blocks of its host",
                          executable_->rank_text(rank), bytes),
              rank};
    }
    message.memory = message.block.memory.get();
  }
  message.bytes = next * each;
  for (std::uint32_t c = first; c < first + count; ++c) {
    const std::uint64_t size = chunks_->scratch[c].count;
    std::memcpy(message.memory + (c - first) * sizeof size, &size, sizeof size);
  }
  return {};
}

Status SizedMemory::take_head(const Step& receive, std::size_t bytes, ScratchPool& pool) {
  const std::uint32_t first = receive.dst.first;
  const Executable& e = *executable_;
  const auto not_as_sized = [&](std::uint64_t expected) {
    return Status(
        Code::Mismatch,
        fmt::format("{} sent {} {} bytes, which expected {}: the sizes of {} blocks and their beginning",
                    e.rank_text(receive.peer), e.rank_text(e.program.rank), bytes, expected, receive.dst.count),
        receive.peer);
  };
  const SizedMessages::Run& expected = run(first);
  if (bytes < expected.size_bytes() || bytes > expected.head_bytes()) return not_as_sized(expected.size_bytes());
  const std::byte* received = messages_[number(first)].memory;
  for (std::uint32_t c = first; c < first + receive.dst.count; ++c) {
    const std::uint64_t size = read_size(received + (c - first) * sizeof(std::uint64_t));
    std::uint64_t& known = chunks_->scratch[c].count;
    const Slice& model = e.scratch_models[c];
    if (model.count > 0 && size != known) {
      const int giver = static_cast<int>(model.first);  // blocks that arrive for this rank are its Out chunks
      return {Code::Mismatch,
              fmt::format("{} sent {} {} elements, which expected {}", e.rank_text(giver), e.rank_text(e.program.rank),
                          size, known),
              giver};
    }
    known = size;
  }
  if (Status laid = lay_out(first, pool); !laid.ok()) return laid;
  const Buffer laid_out = head(first);
  if (bytes != laid_out.bytes) return not_as_sized(laid_out.bytes);
  if (laid_out.data != received) std::memcpy(laid_out.data, received, bytes);
  return {};
}

Buffer SizedMemory::head_room(std::uint32_t chunk) const noexcept {
  return {messages_[number(chunk)].memory, run(chunk).head_bytes(), {}};
}

Buffer SizedMemory::head(std::uint32_t chunk) const noexcept {
  const Message& message = messages_[number(chunk)];
  return {message.memory, std::min<std::size_t>(message.bytes, run(chunk).head_bytes()), {}};
}

Buffer SizedMemory::rest(std::uint32_t chunk) const noexcept {
  const Message& message = messages_[number(chunk)];
  const std::size_t head = std::min<std::size_t>(message.bytes, run(chunk).head_bytes());
  return {message.memory + head, message.bytes - head, {}};
}

std::byte* SizedMemory::data(std::uint32_t chunk) const noexcept {
  return messages_[number(chunk)].memory + chunks_->scratch[chunk].first * executable_->element_bytes;
}

}  // namespace sinew

#include <cassert>
#include <utility>
#include <vector>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/memory/coded_exchanges.hpp>
#include <sinew/parallel/data_parallel/wire/coded_elements.hpp>

namespace sinew::parallel {
namespace {

/// The end of a whole's memory, as long as the codes of all shards.
Buffer codes_in(GroupMemory& values) {
  const Buffer whole = values.whole();
  const std::size_t bytes = at(values.group().shards) * int8_bytes(values.group().shard_elements);
  assert(bytes <= whole.bytes);
  return whole.part(whole.bytes - bytes, bytes);
}

}  // namespace

Work CodedExchanges::gather(GroupMemory& values, Communicator& ranks, const CallOptions& call) {
  const FlatGroup& group = values.group();
  const Buffer codes = codes_in(values);
  const std::size_t bytes = int8_bytes(group.shard_elements);
  const Buffer mine = codes.part(at(ranks.rank()) * bytes, bytes);
  encode_int8(values.shard().data, group.dtype, group.shard_elements, mine.data);
  return ranks.all_gather(mine, codes, DType::U8, call);
}

void CodedExchanges::decode_values(GroupMemory& values) {
  const FlatGroup& group = values.group();
  const Buffer codes = codes_in(values), whole = values.whole();
  const std::size_t bytes = int8_bytes(group.shard_elements), shard = whole.bytes / at(group.shards);
  for (std::size_t s = 0; s < at(group.shards); ++s)
    decode_int8(codes.data + s * bytes, whole.data + s * shard, group.dtype, group.shard_elements);
}

Work CodedExchanges::scatter(std::int32_t exchange, const ScatterStage& stage, GroupMemory& gradients,
                             Communicator& ranks, const CallOptions& call) {
  const FlatGroup& group = gradients.group();
  const DType dtype = stage.is_first ? group.dtype : DType::F32;
  const std::size_t shard = static_cast<std::size_t>(group.shard_elements) * size_of(dtype);
  const std::size_t bytes = int4_bytes(static_cast<std::size_t>(group.shard_elements));
  HeldMemory::Piece codes = memory_->take(stage.coded_bytes(group.shard_elements), Purpose::Underway);
  const Buffer sent = codes.buffer().part(0, codes.buffer().bytes / 2);
  const Buffer arrived = codes.buffer().part(sent.bytes, sent.bytes);
  const Buffer whole = gradients.whole();
  for (std::size_t s = 0; s < stage.shards.size(); ++s)
    encode_int4(whole.data + at(stage.shards[s]) * shard, dtype, group.shard_elements, sent.data + s * bytes);
  codes_.insert_or_assign(exchange, std::move(codes));
  return ranks.all_to_all(sent, arrived, DType::U8, call);
}

void CodedExchanges::add(std::int32_t exchange, const ScatterStage& stage, GroupMemory& gradients, float factor) {
  const auto found = codes_.find(exchange);
  if (found == codes_.end()) return;
  const HeldMemory::Piece codes = std::move(found->second);
  codes_.erase(found);
  const FlatGroup& group = gradients.group();
  const std::size_t bytes = int4_bytes(static_cast<std::size_t>(group.shard_elements));
  const std::byte* const arrived = codes.buffer().data + codes.buffer().bytes / 2;
  std::vector<const std::byte*> contributions(at(stage.ranks));
  const std::size_t each = stage.shards_each();
  for (std::size_t s = 0; s < each; ++s) {
    for (std::size_t r = 0; r < contributions.size(); ++r) contributions[r] = arrived + (r * each + s) * bytes;
    if (stage.is_last) {
      sum_int4(contributions, factor, gradients.shard().data, group.dtype, group.shard_elements);
      continue;
    }
    // The gradients are encoded and sent, so their memory is free for the sums. A shard of sums in f32 takes at most as
    // many bytes as the shards of two ranks in 16 bits.
    const std::size_t sums = static_cast<std::size_t>(group.shard_elements) * sizeof(float);
    assert((s + 1) * sums <= gradients.whole().bytes);
    sum_int4(contributions, 1, gradients.whole().data + s * sums, DType::F32, group.shard_elements);
  }
}

}  // namespace sinew::parallel

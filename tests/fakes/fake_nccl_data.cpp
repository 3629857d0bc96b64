#include "fakes/fake_nccl_data.hpp"

#include <cstring>

#include <fmt/format.h>

#include <sinew/core/numeric/reduce.hpp>

namespace sinew::fake {
namespace {

using Memory = std::vector<std::byte>;

/// The combination of all ranks' `in`, in the order of the ranks.
Memory combined(const std::vector<Part>& parts, std::size_t bytes) {
  const Part& any = parts.front();
  std::vector<Memory> scaled;
  std::vector<const void*> sources;
  for (const Part& p : parts) {
    sources.push_back(p.in);
    if (p.op != ReduceOp::PreMulSum) continue;
    scaler_for(p.dtype, p.factor)(scaled.emplace_back(bytes).data(), p.in, bytes);
    sources.back() = scaled.back().data();
  }
  Memory result(bytes);
  many_reducer_for(any.op, any.dtype)(result.data(), sources.data(), static_cast<int>(sources.size()), bytes);
  if (any.op == ReduceOp::Average)
    scaler_for(any.dtype, 1.0 / static_cast<double>(parts.size()))(result.data(), result.data(), bytes);
  return result;
}

void put(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// Everybody's `in`, one after the other.
Memory joined(const std::vector<Part>& parts, std::size_t bytes) {
  Memory all(parts.size() * bytes);
  for (std::size_t r = 0; r < parts.size(); ++r) put(all.data() + r * bytes, parts[r].in, bytes);
  return all;
}

}  // namespace

DType dtype_of(nccl::DataType type) {
  constexpr DType kTypes[] = {DType::I8,  DType::U8,  DType::I32, DType::U32,  DType::I64,    DType::U64,
                              DType::F16, DType::F32, DType::F64, DType::BF16, DType::F8E4M3, DType::F8E5M2};
  return kTypes[static_cast<int>(type)];
}

std::string Part::signature() const {
  return fmt::format("{}({}, {}, count {}, root {})", name_of(collective), name_of(dtype), name_of(op), count, root);
}

std::size_t Part::in_bytes(int rank, int ranks) const {
  const std::size_t block = count * size_of(dtype);
  switch (collective) {
    case Collective::ReduceScatter:
    case Collective::AllToAll: return block * static_cast<std::size_t>(ranks);
    case Collective::Scatter: return rank == root ? block * static_cast<std::size_t>(ranks) : 0;
    case Collective::Broadcast: return rank == root ? block : 0;
    default: return block;
  }
}

std::size_t Part::out_bytes(int rank, int ranks) const {
  const std::size_t block = count * size_of(dtype);
  switch (collective) {
    case Collective::AllGather:
    case Collective::AllToAll: return block * static_cast<std::size_t>(ranks);
    case Collective::Gather: return rank == root ? block * static_cast<std::size_t>(ranks) : 0;
    case Collective::Reduce: return rank == root ? block : 0;
    default: return block;
  }
}

void perform(const std::vector<Part>& parts) {
  const Part& any = parts.front();
  const std::size_t ranks = parts.size();
  const auto root = static_cast<std::size_t>(any.root);
  const std::size_t block = any.count * size_of(any.dtype);
  switch (any.collective) {
    case Collective::AllReduce:
    case Collective::Reduce: {
      const Memory sum = combined(parts, block);
      for (std::size_t r = 0; r < ranks; ++r) {
        if (any.collective == Collective::AllReduce || r == root) put(parts[r].out, sum.data(), block);
      }
      break;
    }
    case Collective::ReduceScatter: {
      const Memory sum = combined(parts, block * ranks);
      for (std::size_t r = 0; r < ranks; ++r) put(parts[r].out, sum.data() + r * block, block);
      break;
    }
    case Collective::AllGather: {
      const Memory all = joined(parts, block);
      for (const Part& p : parts) put(p.out, all.data(), all.size());
      break;
    }
    case Collective::Gather: {
      const Memory all = joined(parts, block);
      put(parts[root].out, all.data(), all.size());
      break;
    }
    case Collective::Broadcast: {
      const Memory data(parts[root].in, parts[root].in + block);
      for (const Part& p : parts) put(p.out, data.data(), block);
      break;
    }
    case Collective::Scatter: {
      const Memory data(parts[root].in, parts[root].in + ranks * block);
      for (std::size_t r = 0; r < ranks; ++r) put(parts[r].out, data.data() + r * block, block);
      break;
    }
    case Collective::AllToAll: {
      const Memory all = joined(parts, ranks * block);
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t from = 0; from < ranks; ++from)
          put(parts[r].out + from * block, all.data() + (from * ranks + r) * block, block);
      }
      break;
    }
    default: break;
  }
}

}  // namespace sinew::fake

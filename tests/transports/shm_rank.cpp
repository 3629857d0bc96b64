#include <algorithm>
#include <optional>
#include <transports/shm_rank.hpp>

namespace sinew::test {
namespace {

/// Small whole numbers, so that every sum is exact in every type and order.
double value(const ShmCase& c, int ranks, int rank, std::uint64_t i) {
  const bool narrow = size_of(c.dtype) == 1;
  const std::uint64_t mixed = i * 7 + static_cast<std::uint64_t>(rank) * 5 + i / 64;
  if (c.op == ReduceOp::Product) return mixed % 5 == 0 && !narrow ? 2 : 1;
  if (c.op == ReduceOp::Average) return ranks * static_cast<double>(mixed % (narrow ? 2 : 9));
  return static_cast<double>(mixed % (narrow ? 2 : 23));
}

double factor_of(int rank) { return rank % 2 == 0 ? 2.0 : 0.5; }

std::uint64_t element(const ShmCase& c, double v) {
  return is_integer(c.dtype) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(v)) : bits_of(c.dtype, v);
}

double combined(const ShmCase& c, int ranks, std::uint64_t i) {
  double result = 0;
  for (int r = 0; r < ranks; ++r) {
    const double v = value(c, ranks, r, i);
    if (r == 0 && c.op != ReduceOp::PreMulSum) {
      result = v;
      continue;
    }
    switch (c.op) {
      case ReduceOp::Product: result *= v; break;
      case ReduceOp::Min: result = std::min(result, v); break;
      case ReduceOp::Max: result = std::max(result, v); break;
      case ReduceOp::PreMulSum: result += v * factor_of(r); break;
      default: result = c.dtype == DType::Bool ? std::max(result, v) : result + v;
    }
  }
  return c.op == ReduceOp::Average ? result / ranks : result;
}

struct Shape {
  std::uint64_t in = 0;  // elements
  std::uint64_t out = 0;
};

Shape shape_of(const ShmCase& c, int rank, int ranks) {
  const std::uint64_t all = c.count * static_cast<std::uint64_t>(ranks);
  const std::uint64_t of_root = rank == c.root ? all : 0;
  switch (c.collective) {
    case Collective::AllGather: return {c.count, all};
    case Collective::ReduceScatter: return {all, c.count};
    case Collective::AllToAll: return {all, all};
    case Collective::Gather: return {c.count, of_root};
    case Collective::Scatter: return {of_root, c.count};
    case Collective::Barrier: return {};
    default: return {c.count, c.count};
  }
}

/// Element j of rank r's result; nullopt: anything.
std::optional<double> expected(const ShmCase& c, int ranks, int rank, std::uint64_t j) {
  const auto r = static_cast<std::uint64_t>(rank);
  switch (c.collective) {
    case Collective::AllReduce: return combined(c, ranks, j);
    case Collective::Reduce: return rank == c.root ? std::optional(combined(c, ranks, j)) : std::nullopt;
    case Collective::ReduceScatter: return combined(c, ranks, r * c.count + j);
    case Collective::Broadcast: return value(c, ranks, c.root, j);
    case Collective::Gather:
    case Collective::AllGather: return value(c, ranks, static_cast<int>(j / c.count), j % c.count);
    case Collective::Scatter: return value(c, ranks, c.root, r * c.count + j);
    case Collective::AllToAll: return value(c, ranks, static_cast<int>(j / c.count), r * c.count + j % c.count);
    default: return std::nullopt;
  }
}

/// Where in the one buffer of a call in place this rank's two begin, in blocks.
Shape starts_in_place(const ShmCase& c, int rank) {
  const auto own = static_cast<std::uint64_t>(rank);
  const bool root = rank == c.root;
  switch (c.collective) {
    case Collective::AllGather: return {c.same_pointer ? 0 : own, 0};
    case Collective::ReduceScatter: return {0, c.same_pointer ? 0 : own};
    case Collective::Gather: return {root ? own : 0, 0};
    case Collective::Scatter: return {0, root ? own : 0};
    default: return {};
  }
}

}  // namespace

void run_shm_case(ShmRank& rank, const ShmCase& c) {
  const std::size_t size = size_of(c.dtype);
  const Shape shape = shape_of(c, rank.rank(), rank.ranks());
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  if (c.in_place || c.collective == Collective::Broadcast) {
    std::byte* whole = rank.memory(std::max(shape.in, shape.out) * size, c.registered_in);
    const Shape starts = starts_in_place(c, rank.rank());
    in = shape.in > 0 ? whole + starts.in * c.count * size : nullptr;
    out = shape.out > 0 ? whole + starts.out * c.count * size : nullptr;
  } else {
    in = rank.memory(shape.in * size, c.registered_in);
    out = rank.memory(shape.out * size, c.registered_out);
    std::memset(out, 0x77, shape.out * size);
  }
  for (std::uint64_t i = 0; i < shape.in; ++i)
    put_bits(in, i, c.dtype, element(c, value(c, rank.ranks(), rank.rank(), i)));

  Fired done;
  rank.launch(c.desc(), in, out, done, factor_of(rank.rank()));
  EXPECT_FALSE(done.fired) << "fired inside launch";
  rank.wait(done);
  ASSERT_TRUE(done.status.ok()) << done.status.message();

  std::uint64_t wrong = 0;
  for (std::uint64_t j = 0; j < shape.out; ++j) {
    const auto want = expected(c, rank.ranks(), rank.rank(), j);
    const std::uint64_t mask = size == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * size) - 1;
    if (want && bits_at(out, j, c.dtype) != (element(c, *want) & mask) && ++wrong == 1) {
      ADD_FAILURE() << "rank " << rank.rank() << " of " << rank.ranks() << ": " << c.desc().to_string()
                    << (c.in_place ? " in place" : "") << ", element " << j << ": " << bits_at(out, j, c.dtype)
                    << ", expected " << element(c, *want);
    }
  }
  EXPECT_EQ(wrong, 0u);
  if (in != out && !c.in_place) {
    for (std::uint64_t i = 0; i < shape.in; ++i)
      wrong += bits_at(in, i, c.dtype) != element(c, value(c, rank.ranks(), rank.rank(), i));
    EXPECT_EQ(wrong, 0u) << "the input was written to";
  }
  rank.forget_memory();
}

}  // namespace sinew::test

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <sinew/core/config.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {
namespace {

/// dst = a (op) b apart from both, as a reduction out of a peer's memory is. Bytes per second count one operand.
void reduce_pair(benchmark::State& state, ReduceOp op, DType t, std::size_t bytes) {
  const std::vector<std::byte> a(bytes);  // zeros: no kernel but the division of integers looks at values
  const std::vector<std::byte> b(bytes);
  std::vector<std::byte> dst(bytes);
  const Reducer reduce = reducer_for(op, t);
  for (auto _ : state) {
    reduce(dst.data(), a.data(), b.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void reduce_many(benchmark::State& state, DType t, std::size_t bytes, int number) {
  const std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(number), std::vector<std::byte>(bytes));
  std::vector<const void*> sources;
  for (const auto& d : data) sources.push_back(d.data());
  std::vector<std::byte> dst(bytes);
  const ManyReducer reduce = many_reducer_for(ReduceOp::Sum, t);
  for (auto _ : state) {
    reduce(dst.data(), sources.data(), number, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes) * (number - 1));
}

void scale(benchmark::State& state, DType t, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  const Scaler scaler = scaler_for(t, 1.0 / 3);
  for (auto _ : state) {
    scaler(data.data(), data.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void copy(benchmark::State& state, std::size_t bytes) {
  const std::vector<std::byte> src(bytes);
  std::vector<std::byte> dst(bytes);
  for (auto _ : state) {
    std::memcpy(dst.data(), src.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

std::string label(std::string_view what, DType t, std::size_t bytes) {
  return std::string(what) + "/" + std::string(name_of(t)) + "/" + format_bytes(bytes);
}

void register_all() {
  constexpr std::size_t kSizes[] = {std::size_t{32} << 10, std::size_t{16} << 20};
  for (const std::size_t bytes : kSizes) {
    benchmark::RegisterBenchmark(("memcpy/" + format_bytes(bytes)).c_str(), copy, bytes);
    for (const DType t : all_dtypes()) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::BitXor}) {
        if (!is_defined(op, t)) continue;
        benchmark::RegisterBenchmark(label(name_of(op), t, bytes).c_str(), reduce_pair, op, t, bytes);
      }
      benchmark::RegisterBenchmark(label("sum_of_4", t, bytes).c_str(), reduce_many, t, bytes, 4);
      benchmark::RegisterBenchmark(label("scale", t, bytes).c_str(), scale, t, bytes);
    }
  }
  for (const DType t : all_dtypes()) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{64}, std::size_t{1024}}) {
      benchmark::RegisterBenchmark(label("sum", t, bytes).c_str(), reduce_pair, ReduceOp::Sum, t, bytes);
    }
    benchmark::RegisterBenchmark(label("sum_of_2", t, 8).c_str(), reduce_many, t, std::size_t{8}, 2);
  }
}

}  // namespace
}  // namespace sinew

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("kernels", std::string(sinew::kernel_target()));
  sinew::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

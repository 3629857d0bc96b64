#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/topology/virtual_cluster.hpp>

#include "bench_case.hpp"
#include "sweep.hpp"

namespace CLI {
class App;
}

namespace sinew::tools {

/// What the command line asks for.
struct BenchOptions {
  const BenchCase* what = nullptr;
  bool tunes = false;  ///< instead: every collective by every way, into `output`
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 64 << 20;
  SizeGrowth growth;
  std::size_t iterations = 20;  ///< 0: nothing is timed
  std::size_t warmup = 5;
  double batch_s = 200e-6;
  double least_s = 0.1;  ///< all batches of a size together
  DType dtype = DType::F32;
  bool every_dtype = false;  ///< instead: all of them, one after the other
  ReduceOp op = ReduceOp::Sum;
  bool every_op = false;
  int root = 0;  ///< of collectives that have one
  bool every_root = false;
  bool records_root = false;  ///< in the lines of --json
  Determinism determinism = Determinism::Fast;
  Codec codec = Codec::None;
  bool check = true;
  bool in_place = false;
  bool registered = false;
  bool on_device = false;  ///< buffers in the memory of each rank's device
  bool warm_buffers = false;
  std::vector<std::string> transports;     ///< empty: all
  std::string algorithm;                   ///< empty: as selected
  std::string peer;                        ///< empty: none
  std::string cluster;                     ///< a virtual cluster, whose ranks are threads; empty: the job
  NetworkShape network;                    ///< of that cluster
  std::string output = "sinew-tune.json";  ///< of tune
  std::string json;                        ///< empty: none; "-": stdout, instead of the table

  /// True for memory of GPUs of a virtual cluster, which hold no data.
  bool predicts_only() const noexcept { return on_device && !cluster.empty(); }
};

/// One set of options for each element type, operator and root that `options` asks for. As in nccl-tests, types are
/// outermost and roots innermost. Where all types or all operators are asked for, pairs that do not go together are
/// left out.
std::vector<BenchOptions> variants_of(const BenchOptions& options, int ranks);

/// Adds arguments and options that fill `options`.
/// Errors: on parsing, CLI::ValidationError with one line that says what was expected.
void add_bench_options(CLI::App& app, BenchOptions& options);

}  // namespace sinew::tools

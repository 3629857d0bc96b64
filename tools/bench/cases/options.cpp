#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/call_rules.hpp>
#include <sinew/tools/common/device_option.hpp>
#include <sinew/tools/common/network_options.hpp>

namespace sinew::tools {
namespace {

/// As the value of an option: everything that it takes, one after the other.
constexpr std::string_view kEverything = "all";

/// A list of names in a message.
template <class Range, class NameOf>
std::string names(const Range& all, NameOf name) {
  std::vector<std::string> list;
  for (const auto& each : all) list.emplace_back(name(each));
  return fmt::format("{}", fmt::join(list, ", "));
}

[[noreturn]] void reject(const std::string& what, const std::string& found, const std::string& expected) {
  throw CLI::ValidationError(what, fmt::format("'{}': expected {}", shown_value(found), expected));
}

/// An option whose text `read` turns into a value.
CLI::Option* add(CLI::App& app, const std::string& flags, const std::string& help, const std::string& type,
                 const std::function<void(const std::string&)>& read) {
  return app.add_option_function<std::string>(flags, read, help)->type_name(type);
}

std::uint64_t whole_number(const std::string& option, const std::string& text, std::uint64_t least) {
  constexpr std::uint64_t kMost = 999'999'999;
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range || value > kMost) {
    reject(option, text, fmt::format("a whole number, {} at most", kMost));
  }
  if (error != std::errc{} || read != end || value < least) {
    reject(option, text, fmt::format("a whole number, {} or more", least));
  }
  return value;
}

std::uint64_t size_in_bytes(const std::string& option, const std::string& text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;  // of an address space, and not too much for two buffers
  std::uint64_t bytes = 0;
  try {
    bytes = parse_bytes(text);
  } catch (const Error&) {
    reject(option, text, "a size in bytes such as 8, 4KiB, 64MiB or 1GiB");
  }
  if (bytes > kMost) reject(option, text, fmt::format("{} at most", format_bytes(kMost)));
  return bytes;
}

void add_sizes(CLI::App& app, BenchOptions& o) {
  add(app, "-b,--min-bytes,--minbytes", "Smallest size (8); 0 measures zero bytes and goes on from one element or step",
      "BYTES", [&o](const std::string& t) { o.min_bytes = size_in_bytes("-b", t); });
  add(app, "-e,--max-bytes,--maxbytes", "Largest size (64MiB)", "BYTES",
      [&o](const std::string& t) { o.max_bytes = size_in_bytes("-e", t); });
  add(app, "-f,--factor,--stepfactor", "From one size to the next: times so much (2)", "N",
      [&o](const std::string& t) { o.growth.factor = whole_number("-f", t, 2); });
  add(app, "-i,--step-bytes,--stepbytes", "From one size to the next: so many bytes more, instead of -f", "BYTES",
      [&o](const std::string& t) {
        o.growth.step_bytes = size_in_bytes("-i", t);
        if (o.growth.step_bytes == 0) reject("-i", t, "a step of 1 byte or more");
      });
}

/// nccl-tests has options for several ranks in one process; here there are none.
void add_ranks_of_a_process(CLI::App& app) {
  for (const auto& [flag, flags, what] :
       {std::tuple("-g", "-g,--ngpus", "GPUs"), std::tuple("-t", "-t,--nthreads", "Threads")}) {
    add(app, flags, fmt::format("{} of a process, as in nccl-tests: only 1, because each rank is a process", what), "1",
        [flag = std::string(flag)](const std::string& t) {
          if (t == "1") return;
          const bool is_number = !t.empty() && t.find_first_not_of("0123456789") == std::string::npos;
          reject(
              flag, t,
              fmt::format("1, because each rank is a process of its own, with its own GPU where --device is given; a "
                          "launcher starts more ranks, such as sinew-run -n {} sinew-bench ...",
                          is_number && t != "0" ? t : "8"));
        });
  }
}

void add_measuring(CLI::App& app, BenchOptions& o) {
  add(app, "-n,--iters",
      "Calls timed per size at least (20), in 11 batches or more; 0 times nothing: one call is made and checked", "N",
      [&o](const std::string& t) { o.iterations = whole_number("-n", t, 0); });
  add(app, "-w,--warmup,--warmup_iters", "Calls before that (5)", "N",
      [&o](const std::string& t) { o.warmup = whole_number("-w", t, 0); });
  add(app, "--batch", "How long a batch of calls lasts (200us)", "DURATION", [&o](const std::string& t) {
    try {
      o.batch_s = std::chrono::duration<double>(parse_duration(t)).count();
    } catch (const Error&) {
      o.batch_s = 0;
    }
    if (o.batch_s <= 0) reject("--batch", t, "a duration above 0 such as 200us or 20ms");
  });
  add(app, "-c,--check", "1: compare every result with the exact one (default); 0: do not", "0|1",
      [&o](const std::string& t) {
        if (t != "0" && t != "1") reject("-c", t, "0 or 1");
        o.check = t == "1";
      });
  app.add_flag("--in-place", o.in_place, "Input and output share their memory");
  app.add_flag("--registered", o.registered,
               "Buffers from World::allocate, which peers of the host read without copies; with --device from "
               "Communicator::allocate, which NCCL knows");
  add_device_option(app, o.on_device,
                    "Buffers in the memory of each rank's device; a time includes that the host sees the end of each "
                    "call. With --cluster: what is predicted for the GPUs of that machine; nothing is run");
  app.add_flag("--warm-buffers", o.warm_buffers,
               "The same buffers over and over, untouched in between: flatters small sizes");
}

void add_data(CLI::App& app, BenchOptions& o) {
  add(app, "-d,--dtype,--datatype", "Element type (f32); all: each, one after the other", "DTYPE|all",
      [&o](const std::string& t) {
        o.every_dtype = t == kEverything;
        if (o.every_dtype) return;
        const auto dtype = dtype_from_name(t);
        if (!dtype) reject("-d", t, "all, or one of " + names(all_dtypes(), [](DType d) { return name_of(d); }));
        o.dtype = *dtype;
      });
  add(app, "-o,--op", "How contributions combine (sum); all: by each operator, one after the other", "OP|all",
      [&o](const std::string& t) {
        o.every_op = t == kEverything;
        if (o.every_op) return;
        const auto op = reduce_op_from_name(t);
        if (!op || *op == ReduceOp::User) {
          reject("-o", t, "all, or one of " + names(all_reduce_ops(), [](ReduceOp r) { return name_of(r); }));
        }
        o.op = *op;
      });
  add(app, "-r,--root", "The root of broadcast, reduce, gather and scatter (0); all: each rank, one after the other",
      "RANK|all", [&o](const std::string& t) {
        o.records_root = true;
        o.every_root = t == kEverything || t == "-1";
        if (o.every_root) return;
        const auto root = parse_number<int>(t);
        if (!root || *root < 0)
          reject("-r", t, fmt::format("all, or a rank: a whole number, 0 to {}", std::numeric_limits<int>::max()));
        o.root = *root;
      });
  add(app, "--determinism", "What bits can be relied on: fast (default), reproducible, layout_invariant", "LEVEL",
      [&o](const std::string& t) {
        const auto level = determinism_from_name(t);
        if (!level) reject("--determinism", t, "fast, reproducible or layout_invariant");
        o.determinism = *level;
      });
  add(app, "--codec",
      "How f32 elements travel (none); results are then compared with the exact ones by the stated error",
      "none|bf16|f16|int8|f8e4m3", [&o](const std::string& t) {
        const auto codec = codec_from_name(t);
        if (!codec) reject("--codec", t, "none, bf16, f16, int8 or f8e4m3");
        o.codec = *codec;
      });
}

void add_ways(CLI::App& app, BenchOptions& o) {
  app.add_option("--transport", o.transports, "Only these transports")->delimiter(',')->type_name("NAME[,NAME]");
  app.add_option("--algorithm", o.algorithm, "This algorithm whatever its predicted time")->type_name("NAME");
  add(app, "--peer",
      "Measure that library too, in the same processes on the same buffers, taking turns: the MPI whose mpirun started "
      "the ranks, the one that is installed in PREFIX, or oneCCL or DeepSpeed's all-reduce in PREFIX",
      "mpi|PREFIX", [&o](const std::string& t) {
        if (t != "mpi" && !std::filesystem::is_directory(t))
          reject("--peer", t,
                 "mpi, or the folder of an MPI, oneCCL or DeepSpeed, such as /usr/lib/x86_64-linux-gnu/openmpi");
        o.peer = t;
      });
  CLI::Option* cluster =
      add(app, "--cluster",
          "Instead of a job, threads of this process on a cluster that need not be here: machine, by name or file, and "
          "hosts, such as dgx-h100x8 or xeon-2s:3+5. Times are those of threads, predictions the cluster's",
          "MACHINExHOSTS", [&o](const std::string& t) { o.cluster = t; });
  add_network_options(app, cluster, o.network);
  app.add_option("--output", o.output, "Of tune: the file to write (sinew-tune.json)")->type_name("FILE");
  add(app, "--json", "One JSON object per line into FILE; - is stdout, without the table", "FILE",
      [&o](const std::string& t) {
        if (t.starts_with('-') && t != "-") reject("--json", t, "the name of a file, or - for stdout");
        o.json = t;
      });
}

/// What has no say in a tune is an error there.
void check_tune(const BenchOptions& o) {
  const BenchOptions none;
  for (const auto& [option, is_given] : {std::pair("--dtype", o.dtype != none.dtype || o.every_dtype),
                                         {"--op", o.op != none.op || o.every_op},
                                         {"--in-place", o.in_place},
                                         {"--registered", o.registered},
                                         {"--warm-buffers", o.warm_buffers},
                                         {"--determinism", o.determinism != none.determinism},
                                         {"--codec", o.codec != none.codec},
                                         {"--algorithm", !o.algorithm.empty()},
                                         {"--peer", !o.peer.empty()},
                                         {"--json", !o.json.empty()},
                                         {"--cluster", !o.cluster.empty()},
                                         {"--root", o.records_root}}) {
    if (is_given)
      throw CLI::ValidationError(
          option, "tune has no such option: expected -b, -e, -f, -i, -n, -w, --transport, --device, --output");
  }
  if (o.iterations == 0) reject("-n", "0", "1 or more, as tune compares times");
}

void check_growth(const CLI::App& app, const BenchOptions& o) {
  constexpr std::uint64_t kMostSizes = 1'000'000;
  if (o.growth.step_bytes == 0) return;
  if (app.count("-f") > 0) {
    throw CLI::ValidationError("-i",
                               "expected no -f beside it: the next size is either so many bytes or so many times more");
  }
  const std::uint64_t sizes = (o.max_bytes - o.min_bytes) / o.growth.step_bytes + 1;
  if (sizes <= kMostSizes) return;
  throw CLI::ValidationError(
      "-i", fmt::format("{}: {} sizes from {} to {}, expected {} at most", format_bytes(o.growth.step_bytes), sizes,
                        format_bytes(o.min_bytes), format_bytes(o.max_bytes), kMostSizes));
}

std::optional<OptionFault> variant_fault(const BenchOptions& o) {
  return fault_of(o.what->collective, o.dtype, o.op, o.codec);
}

/// Not every operator has a layout-invariant result.
bool keeps_to_leaves(const BenchOptions& o, int ranks) {
  CollectiveDesc desc;
  desc.collective = o.what->collective;
  desc.dtype = o.dtype;
  desc.op = o.op;
  desc.determinism = o.determinism;
  return fits_leaf_blocks(desc, ranks).ok;
}

void check_variants(const BenchOptions& o) {
  if (o.root != 0 && !has_root(o.what->collective)) {
    throw CLI::ValidationError("-r", fmt::format("{}: expected none, as {} has no root", o.root, o.what->name));
  }
  if (!variants_of(o, 1).empty()) return;
  const OptionFault fault = variant_fault(o).value();
  throw CLI::ValidationError(fault.option, fault.problem);
}

/// What two options say together.
void check_together(const CLI::App& app, const BenchOptions& o) {
  if (o.max_bytes < o.min_bytes) {
    throw CLI::ValidationError("-e", fmt::format("{}: expected at least -b, which is {}", format_bytes(o.max_bytes),
                                                 format_bytes(o.min_bytes)));
  }
  check_growth(app, o);
  if (o.tunes) return check_tune(o);
  if (o.output != BenchOptions{}.output) throw CLI::ValidationError("--output", "expected tune, whose file it names");
  check_variants(o);
  if (o.codec != Codec::None && !o.peer.empty())
    throw CLI::ValidationError("--codec", "expected no --peer: it has no codecs");
  if (!o.cluster.empty() && (!o.peer.empty() || !o.transports.empty() || o.registered)) {
    throw CLI::ValidationError("--cluster",
                               "expected no --peer, --transport or --registered: its ranks are threads, and what joins "
                               "them is inproc");
  }
  if (o.predicts_only() && app.count("-n") > 0 && o.iterations > 0)
    throw CLI::ValidationError("-n",
                               "expected 0 with --device and --cluster: such GPUs are not here, and nothing runs");
  if (o.on_device && o.what->exercise == Exercise::Barrier)
    throw CLI::ValidationError("--device", "barrier has no buffers");
  if (o.on_device && !o.peer.empty())
    throw CLI::ValidationError("--device", "expected no --peer: it is given host memory");
  const bool has_registered = o.transports.empty() || std::ranges::find(o.transports, "shm") != o.transports.end();
  if (o.registered && !o.on_device && !has_registered)
    throw CLI::ValidationError("--registered", "expected shm among --transport: no other has registered host memory");
  if (o.in_place && !o.what->may_be_in_place) {
    throw CLI::ValidationError("--in-place", fmt::format("{} has no input beside its output", o.what->name));
  }
}

}  // namespace

std::vector<BenchOptions> variants_of(const BenchOptions& options, int ranks) {
  const Collective what = options.what->collective;
  std::vector<DType> dtypes{options.dtype};
  if (options.every_dtype && what != Collective::Barrier) dtypes.assign(all_dtypes().begin(), all_dtypes().end());
  std::vector<ReduceOp> ops{options.op};
  if (options.every_op && reduces(what)) ops.assign(all_reduce_ops().begin(), all_reduce_ops().end());
  std::vector<int> roots{options.root};
  if (options.every_root && has_root(what)) {
    roots.resize(static_cast<std::size_t>(ranks));
    std::iota(roots.begin(), roots.end(), 0);
  }
  std::vector<BenchOptions> variants;
  for (const DType dtype : dtypes) {
    for (const ReduceOp op : ops) {
      for (const int root : roots) {
        BenchOptions variant = options;
        variant.dtype = dtype;
        variant.op = op;
        variant.root = root;
        if (variant_fault(variant) || (options.every_op && !keeps_to_leaves(variant, ranks))) continue;
        variants.push_back(std::move(variant));
      }
    }
  }
  return variants;
}

void add_bench_options(CLI::App& app, BenchOptions& options) {
  const std::string cases = names(all_cases(), [](const BenchCase& c) { return c.name; }) + ", tune";
  app.add_option_function<std::string>(
         "what",
         [&options, cases](const std::string& t) {
           options.what = find_case(t);
           options.tunes = t == "tune";
           if (options.what == nullptr && !options.tunes)
             throw CLI::ValidationError(fmt::format("'{}': expected one of {}", t, cases));
         },
         "What to measure: " + cases)
      ->type_name("");
  add_sizes(app, options);
  add_ranks_of_a_process(app);
  add_data(app, options);
  add_measuring(app, options);
  add_ways(app, options);
  app.final_callback([&app, &options, cases] {
    if (options.what == nullptr && !options.tunes)
      throw CLI::ValidationError("expected what to measure, one of " + cases);
    check_together(app, options);
  });
}

}  // namespace sinew::tools

#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/config.hpp>
#include <sinew/core/determinism.hpp>
#include <sinew/core/error.hpp>

#include "../call_rules.hpp"
#include "../network_options.hpp"

namespace sinew::tools {
namespace {

/// A list of names in a message.
template <class Range, class NameOf>
std::string names(const Range& all, NameOf name) {
  std::vector<std::string> list;
  for (const auto& each : all) list.emplace_back(name(each));
  return fmt::format("{}", fmt::join(list, ", "));
}

[[noreturn]] void reject(const std::string& what, const std::string& found, const std::string& expected) {
  throw CLI::ValidationError(what, fmt::format("'{}': expected {}", found, expected));
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
  add(app, "-b,--min-bytes", "Smallest size (8); 0 measures zero bytes and goes on from one element", "BYTES",
      [&o](const std::string& t) { o.min_bytes = size_in_bytes("-b", t); });
  add(app, "-e,--max-bytes", "Largest size (64MiB)", "BYTES",
      [&o](const std::string& t) { o.max_bytes = size_in_bytes("-e", t); });
  add(app, "-f,--factor", "From one size to the next (2)", "N",
      [&o](const std::string& t) { o.factor = whole_number("-f", t, 2); });
}

void add_measuring(CLI::App& app, BenchOptions& o) {
  add(app, "-n,--iters", "Calls timed per size at least (20), in 11 batches or more", "N",
      [&o](const std::string& t) { o.iterations = whole_number("-n", t, 1); });
  add(app, "-w,--warmup", "Calls before that (5)", "N",
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
  app.add_flag("--device", o.on_device,
               "Buffers in the memory of each rank's device; a time includes that the host sees the end of each call");
  app.add_flag("--warm-buffers", o.warm_buffers,
               "The same buffers over and over, untouched in between: flatters small sizes");
}

void add_data(CLI::App& app, BenchOptions& o) {
  add(app, "-d,--dtype", "Element type (f32)", "DTYPE", [&o](const std::string& t) {
    const auto dtype = dtype_from_name(t);
    if (!dtype) reject("-d", t, "one of " + names(all_dtypes(), [](DType d) { return name_of(d); }));
    o.dtype = *dtype;
  });
  add(app, "-o,--op", "How contributions combine (sum)", "OP", [&o](const std::string& t) {
    const auto op = reduce_op_from_name(t);
    if (!op || *op == ReduceOp::User) {
      reject("-o", t, "one of " + names(all_reduce_ops(), [](ReduceOp r) { return name_of(r); }));
    }
    o.op = *op;
  });
  add(app, "--determinism", "What bits can be relied on: fast (default), reproducible, layout_invariant", "LEVEL",
      [&o](const std::string& t) {
        const auto level = determinism_from_name(t);
        if (!level) reject("--determinism", t, "fast, reproducible or layout_invariant");
        o.determinism = *level;
      });
  add(app, "--codec",
      "How f32 elements travel (none); results are then compared with the exact ones by the stated error",
      "none|bf16|f16|int8", [&o](const std::string& t) {
        const auto codec = codec_from_name(t);
        if (!codec) reject("--codec", t, "none, bf16, f16 or int8");
        o.codec = *codec;
      });
}

void add_ways(CLI::App& app, BenchOptions& o) {
  app.add_option("--transport", o.transports, "Only these transports")->delimiter(',')->type_name("NAME[,NAME]");
  app.add_option("--algorithm", o.algorithm, "This algorithm whatever its predicted time")->type_name("NAME");
  add(app, "--peer", "Measure that library too, in the same processes on the same buffers, taking turns", "mpi",
      [&o](const std::string& t) {
        if (t != "mpi") reject("--peer", t, "mpi");
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
  for (const auto& [option, is_given] : {std::pair("--dtype", o.dtype != none.dtype),
                                         {"--op", o.op != none.op},
                                         {"--in-place", o.in_place},
                                         {"--registered", o.registered},
                                         {"--device", o.on_device},
                                         {"--warm-buffers", o.warm_buffers},
                                         {"--determinism", o.determinism != none.determinism},
                                         {"--codec", o.codec != none.codec},
                                         {"--algorithm", !o.algorithm.empty()},
                                         {"--peer", !o.peer.empty()},
                                         {"--json", !o.json.empty()},
                                         {"--cluster", !o.cluster.empty()}}) {
    if (is_given)
      throw CLI::ValidationError(option, "tune has no such option: expected -b, -e, -f, -n, -w, --transport, --output");
  }
}

/// What two options say together.
void check_together(const BenchOptions& o) {
  if (o.max_bytes < o.min_bytes) {
    throw CLI::ValidationError("-e", fmt::format("{}: expected at least -b, which is {}", format_bytes(o.max_bytes),
                                                 format_bytes(o.min_bytes)));
  }
  if (o.tunes) return check_tune(o);
  if (o.output != BenchOptions{}.output) throw CLI::ValidationError("--output", "expected tune, whose file it names");
  if (const auto fault = fault_of(o.what->collective, o.dtype, o.op, o.codec))
    throw CLI::ValidationError(fault->option, fault->problem);
  if (o.codec != Codec::None && !o.peer.empty())
    throw CLI::ValidationError("--codec", "expected no --peer: it has no codecs");
  if (!o.cluster.empty() && (!o.peer.empty() || !o.transports.empty() || o.registered || o.on_device)) {
    throw CLI::ValidationError("--cluster",
                               "expected no --peer, --transport, --registered or --device: its ranks are threads, "
                               "and what joins them is inproc");
  }
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
  add_data(app, options);
  add_measuring(app, options);
  add_ways(app, options);
  app.final_callback([&options, cases] {
    if (options.what == nullptr && !options.tunes)
      throw CLI::ValidationError("expected what to measure, one of " + cases);
    check_together(options);
  });
}

}  // namespace sinew::tools

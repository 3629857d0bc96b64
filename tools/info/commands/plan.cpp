#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/call_rules.hpp>
#include <sinew/tools/common/device_option.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/tools/common/sized_call.hpp>
#include <sinew/tools/common/whole_number.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "commands.hpp"
#include "virtual_plan.hpp"

namespace sinew::tools {
namespace {

struct PlanOptions {
  std::string collective;
  std::string bytes;
  std::string dtype = "f32";
  std::string op = "sum";
  std::string determinism = "fast";
  std::string codec = "none";
  std::string cluster;  ///< empty: this job, or ranks on this host
  NetworkShape network;
  int ranks = 2;
  bool on_device = false;
};

std::string collective_names() {
  std::vector<std::string_view> names;
  for (int c = 0; c <= static_cast<int>(Collective::SendRecv); ++c)
    names.push_back(name_of(static_cast<Collective>(c)));
  return fmt::format("{}", fmt::join(names, ", "));
}

template <class Range>
std::string names(const Range& all) {
  std::vector<std::string_view> list;
  for (const auto& each : all) list.push_back(name_of(each));
  return fmt::format("{}", fmt::join(list, ", "));
}

/// The call that has buffers of so many bytes.
SizedCall describe(const PlanOptions& options, int ranks) {
  const auto collective = collective_from_name(options.collective);
  const auto dtype = dtype_from_name(options.dtype);
  const auto op = reduce_op_from_name(options.op);
  const auto level = determinism_from_name(options.determinism);
  if (!collective) {
    throw Error(Code::InvalidArgument, fmt::format("'{}': expected a collective, one of {}",
                                                   shown_value(options.collective), collective_names()));
  }
  if (!dtype)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': expected a type, one of {}", shown_value(options.dtype), names(all_dtypes())));
  if (!op)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': expected an operator, one of {}", shown_value(options.op), names(all_reduce_ops())));
  const auto codec = codec_from_name(options.codec);
  if (!codec)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': expected none, bf16, f16, int8 or f8e4m3", shown_value(options.codec)));
  if (!level)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}': expected fast, reproducible or layout_invariant", shown_value(options.determinism)));
  if (options.bytes.empty() != (*collective == Collective::Barrier)) {
    throw Error(Code::InvalidArgument, options.bytes.empty()
                                           ? fmt::format("{}: expected BYTES, such as 64MiB", options.collective)
                                           : fmt::format("barrier {}: expected no BYTES", options.bytes));
  }
  if (const auto fault = fault_of(*collective, *dtype, *op, *codec))
    throw Error(Code::InvalidArgument, fmt::format("{}: {}", fault->option, fault->problem));
  const std::uint64_t bytes = options.bytes.empty() ? 0 : parse_bytes(options.bytes);
  const Place place{options.on_device ? MemoryKind::Device : MemoryKind::Host};
  const CollectiveDesc what{
      .collective = *collective, .dtype = *dtype, .op = *op, .determinism = *level, .codec = *codec, .place = place};
  const std::uint64_t one = smallest_bytes(what, ranks);
  if (bytes > 0 && bytes < one) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} of {}: expected {} at least, an element for each of {} rank{}", options.collective,
                            options.bytes, format_bytes(one), ranks, ranks == 1 ? "" : "s"));
  }
  return sized_call(what, bytes, ranks);
}

/// Alone there is nothing to choose: the launcher beside this program makes a job of so many ranks of it.
[[noreturn]] void run_as_job(const PlanOptions& options, bool json) {
  static_cast<void>(Config::from_environment());  // what is set wrong is this program's to say, not the launcher's
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string launcher = (std::filesystem::path(self).parent_path() / "sinew-run").string();
  std::vector<std::string> words = {launcher, "--no-prefix", "-n", std::to_string(options.ranks), self};
  if (json) words.emplace_back("--json");
  words.insert(words.end(), {"plan", options.collective, "--dtype", options.dtype, "--op", options.op, "--determinism",
                             options.determinism, "--codec", options.codec});
  if (!options.bytes.empty()) words.push_back(options.bytes);
  if (options.on_device) words.emplace_back("--device");
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  ::execv(launcher.c_str(), arguments.data());
  throw_errno(launcher);
}

/// SINEW_TRANSPORTS says which offloads of devices the cluster has.
std::shared_ptr<const VirtualWorld> virtual_world_for(const PlanOptions& options) {
  VirtualCluster on = virtual_cluster_from(options.cluster, options.network);
  if (!options.on_device) return make_virtual_world(std::move(on));
  return make_virtual_world_with_devices(std::move(on), Config::from_environment().transports);
}

void print_on_cluster(const PlanOptions& options, bool json) {
  const auto virtual_world = virtual_world_for(options);
  SizedCall call;
  const VirtualPlan found = plan_on(virtual_world, [&](int ranks) {
    call = describe(options, ranks);
    return call.desc;
  });
  std::cout << (json ? to_json(found, virtual_world->on) + "\n" : to_text(found, virtual_world->on));
}

/// Who asks for two at a time means one of them.
void require_one_place(const PlanOptions& options, bool counted) {
  if (options.cluster.empty()) return;
  if (counted) {
    throw Error(Code::InvalidArgument,
                fmt::format("-n {}: --cluster {} says how many ranks there are", options.ranks, options.cluster));
  }
  if (in_a_job())
    throw Error(Code::InvalidArgument,
                "--cluster: expected no launcher, as its ranks are threads of one process; SINEW_ALONE=1 if one rank "
                "alone runs this");
}

}  // namespace

void add_plan_command(CLI::App& app, const InfoOptions& options) {
  static PlanOptions plan;
  CLI::App* command = app.add_subcommand("plan", "What would run for a call, every loser with its time, every reject");
  command->add_option("COLLECTIVE", plan.collective, "all_reduce, all_gather, ...")->required();
  command->add_option("BYTES", plan.bytes, "size of the larger buffer, such as 64MiB; a barrier has none");
  command->add_option("--dtype", plan.dtype, "element type, such as f32 (default) or bf16");
  command->add_option("--op", plan.op, "operator, such as sum (default) or max");
  command->add_option("--determinism", plan.determinism, "fast (default), reproducible or layout_invariant");
  command->add_option("--codec", plan.codec, "how f32 elements travel: none (default), bf16, f16, int8 or f8e4m3");
  command->add_option("-n,--ranks", plan.ranks, "outside a job: how many ranks on this host")
      ->transform(whole_number(1, 1024));
  CLI::Option* cluster = command->add_option("--cluster", plan.cluster,
                                             "instead, on a cluster that need not be here: machine, by name or file, "
                                             "and hosts, such as dgx-h100x8 or xeon-2s:3+5");
  add_network_options(*command, cluster, plan.network);
  add_device_option(*command, plan.on_device,
                    "buffers in the memory of each rank's GPU. With --cluster: by NCCL and cuda_ipc as that machine's "
                    "links make them, or by those of the two that SINEW_TRANSPORTS names");
  command->callback([&options, command] {
    static_cast<void>(describe(plan, in_a_job() || !plan.cluster.empty() ? 1 : plan.ranks));
    require_one_place(plan, command->count("--ranks") > 0);
    if (!plan.cluster.empty()) return print_on_cluster(plan, options.json);
    if (!in_a_job() && plan.ranks > 1) run_as_job(plan, options.json);
    World world = World::from_environment();
    if (command->count("--ranks") > 0 && world.size() != plan.ranks)
      throw Error(Code::InvalidArgument,
                  fmt::format("-n {}: this job has {} ranks; -n is for outside of a job", plan.ranks, world.size()));
    const SizedCall call = describe(plan, world.size());
    const Plan chosen = world.communicator().plan(call.desc);
    if (world.rank() != 0) return;
    const std::size_t held = world.communicator().memory_bytes();
    if (options.json) {
      auto json = nlohmann::json::parse(chosen.to_json());
      json["memory_bytes"] = held;
      std::cout << json_text(json) << '\n';
    } else {
      std::cout << chosen.explain() << fmt::format("  memory: {} of buffers on each rank\n", format_bytes(held));
    }
  });
}

}  // namespace sinew::tools

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/core/transport/current_device.hpp>
#include <sinew/transports/nccl/agreement.hpp>

namespace sinew::nccl {
namespace {

bool good(Result result) noexcept { return result == Result::Success || result == Result::InProgress; }

/// One rank's word in the first round.
struct Hello {
  Abilities abilities;
  std::string obstacle;
  std::string host;  ///< as NCCL tells hosts apart
  std::string bus_id;
  UniqueId id{};

  Bytes pack() const { return WireWriter().value(abilities).text(obstacle).text(host).text(bus_id).value(id).take(); }
  static Hello unpack(const Bytes& bytes) {
    WireReader reader(bytes);
    Hello h;
    h.abilities = reader.value<Abilities>();
    h.obstacle = reader.text();
    h.host = reader.text();
    h.bus_id = reader.text();
    h.id = reader.value<UniqueId>();
    return h;
  }
};

/// SINEW_HOST_ID does not move a device to another host; NCCL's own variable does.
std::string host_of_nccl() {
  if (const char* given = std::getenv("NCCL_HOSTID")) return given;
  return file_text("/proc/sys/kernel/random/boot_id").value_or("") + host_name();
}

Hello hello_of(const Library& library, DeviceRuntime& runtime, int device, bool first, const std::string& refusal) {
  Hello mine{.abilities = {library.version, 0, features_of(library.api)}, .obstacle = refusal};
  try {
    const DeviceRuntime::Traits traits = runtime.traits(device);
    mine.host = host_of_nccl();
    mine.bus_id = traits.bus_id;
    mine.abilities.compute_capability = traits.compute_capability;
  } catch (const Error& e) {
    mine.obstacle = e.what();
  }
  if (!first || !mine.obstacle.empty()) return mine;
  const Result result = library.api.get_unique_id(&mine.id);
  if (result != Result::Success) {
    mine.obstacle = fmt::format("ncclGetUniqueId: {}", words_of(library.api, result, nullptr));
  }
  return mine;
}

std::string obstacle_among(const std::vector<Hello>& hellos, const Group& group) {
  const auto rank_text = [&](std::size_t r) { return group.rank_text(static_cast<int>(r)); };
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> owners;
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    if (!hellos[r].obstacle.empty()) return fmt::format("{}: {}", rank_text(r), hellos[r].obstacle);
    const int first = hellos[0].abilities.version;
    if (const int version = hellos[r].abilities.version; version != first) {
      return fmt::format("{} has NCCL {}, {} has {}: NCCL needs one version on all ranks", rank_text(0),
                         version_text(first), rank_text(r), version_text(version));
    }
    const auto [other, alone] = owners.try_emplace({hellos[r].host, hellos[r].bus_id}, r);
    if (!alone) {
      const std::array both{static_cast<int>(other->second), static_cast<int>(r)};
      return fmt::format("{} share the device {}: NCCL takes one rank per device", group.ranks_text(both),
                         hellos[r].bus_id);
    }
  }
  return {};
}

Result begin(const Library& library, const Group& group, const UniqueId& id, DeviceRuntime& runtime, int device,
             Comm& comm) {
  CommConfig config;
  config.blocking = 0;
  const CurrentDevice current(runtime, device);
  return library.api.comm_init_rank_config(&comm, group.size(), id, group.rank, &config);
}

}  // namespace

std::string words_of(const Api& api, Result result, Comm comm) {
  const char* details = api.get_last_error(comm);
  return fmt::format("{}{}{}", api.get_error_string(result), details == nullptr || *details == '\0' ? "" : ": ",
                     details == nullptr ? "" : details);
}

Agreement agree(const OffloadContext& context, const Library& library, Endings& endings, DeviceRuntime& runtime,
                int device, std::string& refusal) {
  const Hello mine = hello_of(library, runtime, device, context.group.rank == 0, refusal);
  std::vector<Hello> hellos;
  for (const Bytes& b : context.exchange.all_gather(mine.pack())) hellos.push_back(Hello::unpack(b));
  Agreement agreed{.obstacle = obstacle_among(hellos, context.group), .abilities = mine.abilities};
  for (const Hello& h : hellos) {
    int& least = agreed.abilities.compute_capability;
    least = std::min(least, h.abilities.compute_capability);
    agreed.abilities.features = common_to(agreed.abilities.features, h.abilities.features);
  }
  if (!agreed.obstacle.empty()) return agreed;

  std::string obstacle;
  try {
    const Result result = begin(library, context.group, hellos[0].id, runtime, device, agreed.comm);
    if (!good(result)) {
      obstacle = fmt::format("ncclCommInitRankConfig: {}", words_of(library.api, result, agreed.comm));
      if (result == Result::UnhandledCudaError) refusal = obstacle;
    }
  } catch (const Error& e) {
    obstacle = e.what();
  }
  const std::vector<Bytes> obstacles = context.exchange.all_gather(WireWriter().text(obstacle).take());
  for (std::size_t r = 0; r < obstacles.size() && agreed.obstacle.empty(); ++r) {
    if (const std::string why = WireReader(obstacles[r]).text(); !why.empty())
      agreed.obstacle = fmt::format("{}: {}", context.group.rank_text(static_cast<int>(r)), why);
  }
  if (!agreed.obstacle.empty() && agreed.comm != nullptr) endings.abort(std::exchange(agreed.comm, nullptr), {});
  return agreed;
}

}  // namespace sinew::nccl

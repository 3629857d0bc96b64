#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/wire.hpp>
#include <sinew/transports/nccl/agreement.hpp>

namespace sinew::nccl {
namespace {

bool good(Result result) noexcept { return result == Result::Success || result == Result::InProgress; }

/// One rank's word in the first round.
struct Hello {
  int version = 0;
  std::string obstacle;
  UniqueId id{};

  Bytes pack() const { return WireWriter().value(version).text(obstacle).value(id).take(); }
  static Hello unpack(const Bytes& bytes) {
    WireReader reader(bytes);
    Hello h;
    h.version = reader.value<int>();
    h.obstacle = reader.text();
    h.id = reader.value<UniqueId>();
    return h;
  }
};

std::string obstacle_among(const std::vector<Hello>& hellos) {
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    if (!hellos[r].obstacle.empty()) return fmt::format("rank {}: {}", r, hellos[r].obstacle);
    if (hellos[r].version == hellos[0].version) continue;
    return fmt::format("rank 0 has NCCL {}, rank {} has {}: NCCL needs one version on all ranks",
                       version_text(hellos[0].version), r, version_text(hellos[r].version));
  }
  return {};
}

/// NCCL takes the device of the thread; the thread keeps its own.
Result begin(const Library& library, const Group& group, const UniqueId& id, DeviceRuntime& runtime, int device,
             Comm& comm) {
  CommConfig config;
  config.blocking = 0;
  const int before = runtime.make_current(device);
  const Result result = library.api.comm_init_rank_config(&comm, group.size(), id, group.rank, &config);
  runtime.make_current(before);
  return result;
}

}  // namespace

std::string words_of(const Api& api, Result result, Comm comm) {
  const char* details = api.get_last_error(comm);
  return fmt::format("{}{}{}", api.get_error_string(result), details == nullptr || *details == '\0' ? "" : ": ",
                     details == nullptr ? "" : details);
}

Agreement agree(const OffloadContext& context, const Library& library, Endings& endings, DeviceRuntime& runtime,
                int device) {
  Hello mine{.version = library.version};
  if (context.group.rank == 0) {
    const Result result = library.api.get_unique_id(&mine.id);
    if (result != Result::Success) {
      mine.obstacle = fmt::format("ncclGetUniqueId: {}", words_of(library.api, result, nullptr));
    }
  }
  std::vector<Hello> hellos;
  for (const Bytes& b : context.exchange.all_gather(mine.pack())) hellos.push_back(Hello::unpack(b));
  Agreement agreed{.obstacle = obstacle_among(hellos)};
  if (!agreed.obstacle.empty()) return agreed;

  std::string obstacle;
  try {
    const Result result = begin(library, context.group, hellos[0].id, runtime, device, agreed.comm);
    if (!good(result)) obstacle = fmt::format("ncclCommInitRankConfig: {}", words_of(library.api, result, agreed.comm));
  } catch (const Error& e) {
    obstacle = e.what();
  }
  const std::vector<Bytes> obstacles = context.exchange.all_gather(WireWriter().text(obstacle).take());
  for (std::size_t r = 0; r < obstacles.size() && agreed.obstacle.empty(); ++r) {
    if (const std::string why = WireReader(obstacles[r]).text(); !why.empty())
      agreed.obstacle = fmt::format("rank {}: {}", r, why);
  }
  if (!agreed.obstacle.empty() && agreed.comm != nullptr) endings.abort(std::exchange(agreed.comm, nullptr));
  return agreed;
}

}  // namespace sinew::nccl

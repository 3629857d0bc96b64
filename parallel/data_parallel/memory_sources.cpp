#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/data_parallel/memory_sources.hpp>

namespace sinew::parallel {

MemorySources memory_sources(Communicator& ranks, const Allocate& allocate, const DataParallelOptions& options) {
  const auto guarded = [&ranks](Allocate give) -> Allocate {
    return [&ranks, give = std::move(give)](std::size_t bytes) {
      const auto doing = [&] { return fmt::format("allocation of {} bytes for data parallelism", bytes); };
      return run_user_code(ranks, doing, [&] { return give(bytes); });
    };
  };
  MemorySources sources;
  if (options.device.exists()) {
    sources.engine = guarded([copies = Copies(options.device)](std::size_t bytes) { return copies.allocate(bytes); });
  } else {
    sources.engine = guarded(allocate);
  }
  if (options.step.offload != Offload::Nothing) sources.kept = guarded(options.shards ? options.shards : allocate);
  return sources;
}

}  // namespace sinew::parallel

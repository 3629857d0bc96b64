#include <algorithm>
#include <cstdint>
#include <string_view>

#include <sinew/parallel/data_parallel/predicted_prices.hpp>

namespace sinew::parallel {
namespace {

Collective collective_of(NodeKind exchange) noexcept {
  if (exchange == NodeKind::AllGather) return Collective::AllGather;
  return exchange == NodeKind::ReduceScatter ? Collective::ReduceScatter : Collective::AllReduce;
}

}  // namespace

ExchangePrices predicted_prices(Mesh& mesh, StepMemory& memory, const DataParallelOptions& options) {
  const auto seconds = [&memory, &options](NodeKind exchange, std::string_view axes, std::int64_t bytes) -> double {
    Communicator* const group = memory.group_along(axes);
    if (group == nullptr) return 0;
    const Collective collective = collective_of(exchange);
    const std::int64_t parts = collective == Collective::AllReduce ? 1 : group->size();
    const CollectiveDesc desc{.collective = collective,
                              .dtype = DType::F32,
                              .determinism = options.determinism,
                              .codec = reduces(collective) ? options.wire.codec : Codec::None,
                              .count = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes / parts / 4, 1))};
    return group->plan(desc).chosen().predicted;
  };
  return {.ranks = [&mesh](std::string_view axes) { return mesh.size(axes); }, .seconds = seconds};
}

}  // namespace sinew::parallel

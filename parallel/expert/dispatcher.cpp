#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/expert/all_gather_dispatcher.hpp>
#include <sinew/parallel/expert/all_to_all_dispatcher.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>
#include <sinew/parallel/expert/hierarchical_dispatcher.hpp>
#include <sinew/parallel/expert/tensor_dispatcher.hpp>

namespace sinew::parallel {
namespace {

void require(const ExpertRanks& ranks, const DispatchShape& shape, int group) {
  if (shape.experts < 1 || shape.top_k < 1 || shape.top_k > shape.experts || shape.width < 1 || shape.chunks < 1)
    throw Error(Code::InvalidArgument,
                fmt::format("dispatcher '{}': top {} of {} experts, tokens of {} elements, {} chunks: expected 1 or "
                            "more of each, and no more of the experts than there are",
                            shape.name, shape.top_k, shape.experts, shape.width, shape.chunks));
  if (!ranks.hosts.empty() && std::ssize(ranks.hosts) != group)
    throw Error(Code::InvalidArgument,
                fmt::format("dispatcher '{}': hosts of {} ranks, expected {}, those that experts are spread over",
                            shape.name, ranks.hosts.size(), group));
}

template <class T>
std::unique_ptr<Dispatcher<T>> flat(DispatchKind kind, CallGroup group, const std::vector<int>& hosts,
                                    const DispatchShape& shape) {
  const GroupPlace place(group);
  std::vector<Rows> experts;
  for (int r = 0; r < place.ranks; ++r) experts.push_back(rows_of({}, r, place.ranks, shape.experts));
  switch (kind) {
    case DispatchKind::AllGather:
      return std::make_unique<AllGatherDispatcher<T>>(group, experts[static_cast<std::size_t>(place.rank)], hosts,
                                                      shape);
    case DispatchKind::AllToAll: return std::make_unique<AllToAllDispatcher<T>>(group, experts, hosts, shape);
    case DispatchKind::Hierarchical: return std::make_unique<HierarchicalDispatcher<T>>(group, experts, hosts, shape);
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(DispatchKind kind) noexcept {
  switch (kind) {
    case DispatchKind::AllGather: return "all_gather";
    case DispatchKind::AllToAll: return "all_to_all";
    case DispatchKind::Hierarchical: return "hierarchical";
  }
  return "";
}

template <class T>
std::unique_ptr<Dispatcher<T>> make_dispatcher(DispatchKind kind, const ExpertRanks& ranks, const DispatchShape& shape,
                                               const std::source_location& where) {
  require(ranks, shape, GroupPlace(*ranks.experts).ranks);
  std::unique_ptr<Dispatcher<T>> made = flat<T>(kind, {*ranks.experts, where}, ranks.hosts, shape);
  if (ranks.tensor == nullptr || ranks.tensor->size() <= 1) return made;
  return std::make_unique<TensorDispatcher<T>>(CallGroup(*ranks.tensor, where), std::move(made), shape);
}

template std::unique_ptr<Dispatcher<float>> make_dispatcher(DispatchKind, const ExpertRanks&, const DispatchShape&,
                                                            const std::source_location&);
template std::unique_ptr<Dispatcher<double>> make_dispatcher(DispatchKind, const ExpertRanks&, const DispatchShape&,
                                                             const std::source_location&);

}  // namespace sinew::parallel

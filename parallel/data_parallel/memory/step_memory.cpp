#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/call/group.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/memory/step_memory.hpp>

namespace sinew::parallel {
namespace {

Buffer part_in(Buffer shard, DType dtype, const ShardPart& part) {
  const std::size_t element = size_of(dtype);
  return shard.part(static_cast<std::size_t>(part.at) * element,
                    static_cast<std::size_t>(part.last - part.first) * element);
}

}  // namespace

StepMemory::StepMemory(Mesh& mesh, const std::vector<DataParameter>& parameters, const DataRow& row, Allocate allocate,
                       Allocate kept, const DataParallelOptions& options, const std::source_location& where)
    : mesh_(&mesh),
      where_(where),
      parameters_(&parameters),
      sharded_(sharded_axis(row)),
      shards_(sharded_.axis.empty() ? 1 : mesh.size(sharded_.axis)),
      index_(sharded_.axis.empty() ? 0 : mesh.index(sharded_.axis)),
      options_(options),
      memory_(std::move(allocate), Copies(options.device), std::move(kept)),
      value_places_(parameters.size()),
      gradient_places_(parameters.size()) {}

void StepMemory::make_groups(const StepGraph& graph) {
  for (const Node& node : graph.nodes) {
    if (!is_exchange(node.kind) || groups_.contains(node.axes) || mesh_->size(node.axes) == 1) continue;
    Communicator& theirs = mesh_->along(node.axes);
    const std::string name = fmt::format("data along {}", node.axes);
    groups_.emplace(node.axes, theirs.split(0, theirs.rank(), {.label = "data parallelism", .where = where_},
                                            std::string_view(name).substr(0, kLongestGroupName)));
  }
}

void StepMemory::end_groups(const std::string& why) {
  for (auto& [axes, group] : groups_) group.abort(why);
}

Communicator* StepMemory::group_along(std::string_view axes) {
  const std::string wanted = mesh_->shape().in_order(axes);
  for (auto& [own, group] : groups_) {
    if (mesh_->shape().in_order(own) == wanted) return &group;
  }
  return nullptr;
}

void StepMemory::agree(Agreed call) {
  const auto name_of = [](std::int64_t number) {
    return number == static_cast<std::int64_t>(Agreed::Abandon) ? "abandon_step()" : "the parts of a checkpoint";
  };
  const std::array<std::int64_t, 1> mine{static_cast<std::int64_t>(call)};
  for (auto& [axes, group] : groups_) {
    std::vector<std::int64_t> calls(static_cast<std::size_t>(group.size()));
    group.all_gather(mine, calls, {.label = "a step's calls of all ranks", .where = where_}).get();
    const auto other = std::ranges::find_if(calls, [&](std::int64_t each) { return each != mine[0]; });
    if (other == calls.end()) continue;
    throw Error(Code::InvalidArgument,
                fmt::format("data parallelism: {} asked for {}, {} for {}; expected the same call on all ranks",
                            group.rank_text(static_cast<int>(other - calls.begin())), name_of(*other),
                            group.rank_text(group.rank()), name_of(mine[0])));
  }
}

void StepMemory::agree_or_regroup(Agreed call, const StepGraph& graph) {
  try {
    agree(call);
    return;
  } catch (const Error& e) {
    end_groups(e.what());
    if (e.code() != Code::Aborted) throw;
  }
  groups_.clear();
  make_groups(graph);
}

void StepMemory::take_from_first(std::vector<std::int32_t>& order) {
  for (auto& [axes, group] : groups_)
    group.broadcast(order, 0, {.label = "the order of gradients", .where = where_}).get();
}

std::vector<StepMemory::Bucket> StepMemory::laid_out(const std::vector<std::vector<std::int32_t>>& groups, Held held,
                                                     Purpose purpose, std::vector<Spot>& places) {
  std::vector<Bucket> memory;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    FlatGroup group = flat_group(*parameters_, groups[g], shards_);
    if (purpose == Purpose::Gradient) group = of_gradients(std::move(group), *parameters_);
    const std::string& first = (*parameters_)[static_cast<std::size_t>(groups[g].front())].path;
    const std::string more = groups[g].size() == 1 ? "" : fmt::format(" and {} more", groups[g].size() - 1);
    memory.push_back({GroupMemory(memory_, std::move(group), index_, held, purpose),
                      fmt::format("bucket {} of {} ('{}'{})", g,
                                  purpose == Purpose::Gradient ? "gradients" : "parameters", first, more)});
    for (std::size_t m = 0; m < groups[g].size(); ++m) places[static_cast<std::size_t>(groups[g][m])] = {g, m};
  }
  return memory;
}

void StepMemory::place_values(const std::vector<std::vector<std::int32_t>>& groups, const InitialValues& initial) {
  values_ = laid_out(groups, sharded_.parameter, Purpose::Parameter, value_places_);
  for (auto& [memory, label] : values_) {
    const FlatGroup& group = memory.group();
    const auto fill = [&](Buffer in, std::int32_t parameter, std::int64_t first, std::int64_t last, std::int64_t at) {
      const std::size_t element = size_of(group.dtype);
      const DataParameter& p = (*parameters_)[static_cast<std::size_t>(parameter)];
      memory_.copies().fill(
          in.part(static_cast<std::size_t>(at) * element, static_cast<std::size_t>(last - first) * element),
          [&](Buffer values) {
            initial({p, parameter, first, last, values});
          });
    };
    if (memory.has_whole()) {
      for (std::size_t m = 0; m < group.parameters.size(); ++m) {
        const std::int32_t p = group.parameters[m];
        fill(memory.whole(), p, 0, (*parameters_)[static_cast<std::size_t>(p)].elements, group.offsets[m]);
      }
      continue;
    }
    for (const ShardPart& part : parts_of(group, *parameters_, index_))
      fill(memory.shard(), part.parameter, part.first, part.last, part.at);
  }
}

void StepMemory::place_gradients(const std::vector<std::vector<std::int32_t>>& groups) {
  residuals_.clear();
  gradients_.clear();  // frees these before the new ones are allocated
  gradients_ = laid_out(groups, sharded_.gradient, Purpose::Gradient, gradient_places_);
}

void StepMemory::keep_to(MemoryPlan plan) {
  plan_ = std::move(plan);
  if (held().of(Purpose::Underway) == 0) memory_.reserve(plan_.underway);
}

bool StepMemory::is_as_planned() const noexcept {
  constexpr std::array kPlanned = {Purpose::Parameter, Purpose::Gradient, Purpose::Residual};
  return std::ranges::all_of(kPlanned, [&](Purpose p) { return held().most_of(p) <= plan_.of(p); });
}

void StepMemory::require_room_for(const GroupMemory& parameters) const {
  if (sharded_.parameter == Held::Whole || parameters.has_whole()) return;
  std::int64_t gathered = parameters.group().bytes();
  for (const auto& [memory, label] : values_) gathered += memory.has_whole() ? memory.group().bytes() : 0;
  require_planned(static_cast<std::size_t>(gathered), plan_);
}

Buffer StepMemory::at(std::vector<Bucket>& memory, const std::vector<Spot>& places, std::int32_t parameter) {
  const auto p = static_cast<std::size_t>(parameter);
  return memory[places[p].group].memory.part(places[p].member, (*parameters_)[p].elements);
}

template <class Gradient>
std::vector<OwnedPart> StepMemory::owned_with(const Gradient& gradient) {
  std::vector<OwnedPart> owned;
  for (std::size_t g = 0; g < values_.size(); ++g) {
    const GroupMemory& values = values_[g].memory;
    const DType dtype = values.group().dtype;
    for (const ShardPart& part : parts_of(values.group(), *parameters_, index_)) {
      owned.push_back({part.parameter, part.first, part.last, dtype, part_in(values.shard(), dtype, part),
                       gradient(g, part), (*parameters_)[static_cast<std::size_t>(part.parameter)].gradient_dtype()});
    }
  }
  std::ranges::sort(owned, {}, [](const OwnedPart& p) { return std::pair(p.parameter, p.first); });
  return owned;
}

std::vector<OwnedPart> StepMemory::owned() {
  return owned_with([&](std::size_t group, const ShardPart& part) {
    if (sharded_.optimizer == Held::Whole) return gradient(part.parameter);
    const DType dtype = (*parameters_)[static_cast<std::size_t>(part.parameter)].gradient_dtype();
    return part_in(gradients_[group].memory.shard(), dtype, part);
  });
}

std::vector<OwnedPart> StepMemory::owned_values() {
  return owned_with([](std::size_t, const ShardPart&) { return Buffer{}; });
}

void StepMemory::clear_gradients() {
  for (auto& [memory, label] : gradients_) {
    if (memory.has_whole()) memory_.copies().zero(memory.whole());
  }
}

void StepMemory::scale_residuals(double factor) {
  for (auto& [exchange, residual] : residuals_) {
    const Buffer bytes = residual.buffer();
    auto* const kept = reinterpret_cast<float*>(bytes.data);
    for (std::size_t i = 0; i < bytes.bytes / sizeof(float); ++i)
      kept[i] = static_cast<float>(static_cast<double>(kept[i]) * factor);
  }
}

void StepMemory::abandon() {
  coded_.drop();
  for (std::vector<Bucket>* all : {&values_, &gradients_}) {
    for (auto& [memory, label] : *all) memory.free_whole();
  }
  for (auto& [exchange, residual] : residuals_) memory_.copies().zero(residual.buffer());
  clear_gradients();
}

StepMemory::Bucket& StepMemory::bucket_of(TensorId tensor) {
  const auto n = parameters_->size();
  const auto t = static_cast<std::size_t>(tensor);
  return t < n ? values_[value_places_[t].group] : gradients_[gradient_places_[t - n].group];
}

bool StepMemory::gathers_codes(const Node& exchange) const noexcept {
  return exchange.kind == NodeKind::AllGather && options_.weights == WeightWire::Int8 &&
         exchange.axes == sharded_.axis && shards_ > 1;
}

const ScatterStage* StepMemory::scatter_stage_of(const Node& exchange) {
  if (exchange.kind != NodeKind::ReduceScatter || !options_.wire.int4) return nullptr;
  auto known = stages_.find(exchange.axes);
  if (known == stages_.end())
    known = stages_
                .emplace(exchange.axes, scatter_stage(mesh_->shape(), mesh_->rank(), sharded_.axis,
                                                      options_.step.scatter_axes, exchange.axes))
                .first;
  return known->second.ranks == 1 ? nullptr : &known->second;  // a single rank has the exact sum
}

Work StepMemory::gather(const Node& exchange, Bucket& bucket, Communicator& ranks) {
  GroupMemory& memory = bucket.memory;
  const CallOptions call{.after = options_.device.stream,
                         .determinism = options_.determinism,
                         .label = bucket.label.c_str(),
                         .where = where_};
  require_room_for(memory);
  if (gathers_codes(exchange)) return coded_.gather(memory, ranks, call);
  const bool is_first = exchange.axes == sharded_.axis;
  if (is_first) {
    memory.send_up();
  } else if (memory.kept_part().data == nullptr) {  // the step is given up: nobody reads what is gathered
    (void)memory.whole();
    memory.keep_part(mesh_->index(exchange.axes), ranks.size());
  }
  const Buffer part = is_first ? memory.traveling_shard() : memory.kept_part();
  return ranks.all_gather(part, memory.whole(), memory.group().dtype, call);
}

Work StepMemory::start(const Node& exchange) {
  Bucket& bucket = bucket_of(exchange.tensors.front());
  GroupMemory& memory = bucket.memory;
  const auto own = groups_.find(exchange.axes);
  Communicator& ranks = own == groups_.end() ? mesh_->along(exchange.axes) : own->second;
  if (exchange.kind == NodeKind::AllGather) return gather(exchange, bucket, ranks);
  const CallOptions call{.after = options_.device.stream,
                         .determinism = options_.determinism,
                         .codec = options_.wire.codec,
                         .label = bucket.label.c_str(),
                         .where = where_};
  if (const ScatterStage* const stage = scatter_stage_of(exchange))
    return stage->ranks == 0 ? Work() : coded_.scatter(exchange.exchange, *stage, memory, ranks, call);
  const Buffer mine = exchange.parts ? memory.traveling_shard() : memory.whole();
  if (options_.wire.error_feedback && ranks.size() > 1) {
    const bool scatters = exchange.kind == NodeKind::ReduceScatter;
    feed_back_into(exchange.exchange, mine, scatters ? memory.shard().bytes : mine.bytes);
  }
  const DType dtype = memory.group().dtype;
  if (exchange.kind == NodeKind::ReduceScatter) {
    const Buffer sum = exchange.adds ? memory.added_sum() : memory.traveling_shard();
    return ranks.reduce_scatter(mine, sum, dtype, options_.gradients, call);
  }
  return ranks.all_reduce(mine, mine, dtype, options_.gradients, call);
}

void StepMemory::await(Work& work) {
  if (memory_.copies().on_device() && !memory_.is_apart()) {
    work.order(options_.device.stream);
  } else {
    work.get();
  }
}

void StepMemory::end(const Node& exchange) {
  if (gathers_codes(exchange)) CodedExchanges::decode_values(group_of(exchange.tensors.front()));
  const ScatterStage* const stage = scatter_stage_of(exchange);
  if (stage == nullptr || stage->ranks == 0) return;
  const float factor = options_.gradients == ReduceOp::Average ? 1.0f / static_cast<float>(shards_) : 1.0f;
  coded_.add(exchange.exchange, *stage, group_of(exchange.tensors.front()), factor);
}

void StepMemory::feed_back_into(std::int32_t exchange, Buffer gradients, std::size_t part_bytes) {
  HeldMemory::Piece& residual = residuals_[exchange];
  if (!residual) residual = memory_.take(gradients.bytes, Purpose::Residual);
  const std::size_t count = part_bytes / sizeof(float);
  for (std::size_t first = 0; first < gradients.bytes; first += part_bytes) {
    feed_back(options_.wire.codec, {reinterpret_cast<float*>(gradients.data + first), count},
              {reinterpret_cast<float*>(residual.buffer().data + first), count});
  }
}

void StepMemory::free(const Node& node) {
  for (const TensorId t : node.tensors) {
    if (node.axes.empty()) {
      if (static_cast<std::size_t>(t) >= parameters_->size()) group_of(t).bring_down();
      group_of(t).free_whole();
    } else {
      group_of(t).keep_part(mesh_->index(node.axes), mesh_->size(node.axes));
    }
  }
}

}  // namespace sinew::parallel

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/compute/vector_kernels.hpp>
#include <sinew/parallel/modules/layers/experts_module.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {
namespace {

GroupPlace place_in(const Communicator* group) {
  return group != nullptr ? GroupPlace(*group) : GroupPlace(Communicator());
}

Rows even_part(const GroupPlace& place, std::int64_t extent) { return rows_of({}, place.rank, place.ranks, extent); }

ExpertsShape checked(ExpertsShape shape, const LayerGroup& group) {
  if (GroupPlace(*group.tensor).ranks > 1 && !group.sequence_parallel)
    throw Error(Code::InvalidArgument,
                fmt::format("experts '{}': {} tensor-parallel ranks have the same rows, expected sequence parallelism, "
                            "where each has rows of its own",
                            shape.name, GroupPlace(*group.tensor).ranks));
  return shape;
}

ExpertRanks or_alone(ExpertRanks ranks, Communicator& alone) {
  if (ranks.experts == nullptr) ranks.experts = &alone;
  return ranks;
}

/// Sizes of a matrix product of rows [rows, columns] with a matrix as stored.
Product product(bool a_transposed, bool b_transposed, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.a_transposed = a_transposed,
          .b_transposed = b_transposed,
          .m = as_int(m),
          .n = as_int(n),
          .k = as_int(k),
          .la = as_int(a_transposed ? m : k),
          .lb = as_int(b_transposed ? k : n),
          .lc = as_int(n)};
}

}  // namespace

template <class T>
ExpertsModule<T>::ExpertsModule(const LayerGroup& group, const ExpertRanks& ranks, const ExpertsShape& shape,
                                const ExpertsSurroundings<T>& surroundings)
    : shape_(checked(shape, group)),
      group_(group),
      experts_(even_part(place_in(ranks.experts), shape.experts)),
      inner_(even_part(place_in(ranks.tensor), shape.inner)),
      expert_ranks_(place_in(ranks.experts).ranks),
      tensor_ranks_(place_in(ranks.tensor).ranks),
      own_rows_(group.own_rows(shape.rows)),
      alone_(std::make_unique<Communicator>()),
      ranks_(or_alone(ranks, *alone_)),
      surroundings_(surroundings),
      router_({.name = shape.name + ".router",
               .experts = shape.experts,
               .top_k = shape.top_k,
               .score = shape.score,
               .normalised = shape.top_k > 1,
               .groups = shape.groups,
               .chosen_groups = shape.chosen_groups,
               .z = shape.z}) {
  if (surroundings_.places) {
    where_ = surroundings_.places->token_positions();
  } else if (shape_.balance > 0 || shape_.capacity.factor > 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("experts '{}': a balance loss of {} and a capacity of {} are those of sequences, expected "
                            "the places of tokens (ExpertsSurroundings::places)",
                            shape_.name, shape_.balance, shape_.capacity.factor));
  }
  if (surroundings_.sequences == nullptr) surroundings_.sequences = alone_.get();
  const bool makes_now = surroundings_.shared == nullptr;
  if (makes_now) surroundings_.shared = std::make_shared<SharedExperts<T>>();
  const std::int64_t sent = own_rows_ * shape_.top_k, of_all = tensor_ranks_ > 1 ? (1 + tensor_ranks_) * sent : 0;
  surroundings_.shared->planned_bytes = static_cast<std::size_t>((2 * sent + of_all) * shape_.width) * sizeof(T);
  if (makes_now) shared();
}

template <class T>
SharedExperts<T>& ExpertsModule<T>::shared() {
  SharedExperts<T>& all = *surroundings_.shared;
  if (all.dispatcher != nullptr) return all;
  all.dispatcher = make_dispatcher<T>(shape_.dispatch, ranks_,
                                      {.name = shape_.name,
                                       .experts = shape_.experts,
                                       .top_k = shape_.top_k,
                                       .width = shape_.width,
                                       .chunks = shape_.chunks,
                                       .determinism = shape_.determinism});
  if (shape_.balance > 0) all.balance.emplace(*surroundings_.sequences, router_.shape(), shape_.balance);
  if (shape_.capacity.factor > 0)
    all.capacity.emplace(*surroundings_.sequences, router_.shape(), shape_.capacity, own_rows_);
  return all;
}

template <class T>
std::int64_t ExpertsModule<T>::even_rows() const noexcept {
  const std::int64_t assignments = own_rows_ * shape_.top_k * expert_ranks_ * tensor_ranks_;
  return (assignments * experts_.count() + shape_.experts - 1) / shape_.experts;
}

template <class T>
ArrayCounts ExpertsModule<T>::kept_arrays() const {
  return ArrayCounts::varying(even_rows(), {shape_.width, inner(), drops_ ? 0 : inner()});
}

template <class T>
ArrayCounts ExpertsModule<T>::deferred_arrays() const {
  return ArrayCounts::varying(even_rows(), {shape_.width, inner()}) + ArrayCounts{own_rows_ * shape_.experts};
}

template <class T>
ArrayCounts ExpertsModule<T>::forward_arrays(bool /*keeps*/) const {
  return most_of(ArrayCounts::varying(even_rows(), {shape_.width, inner(), inner(), shape_.width}),
                 {own_rows_ * shape_.experts});
}

template <class T>
ArrayCounts ExpertsModule<T>::backward_arrays() const {
  ArrayCounts all = kept_arrays() + deferred_arrays();
  if (drops_) all += ArrayCounts::varying(even_rows(), {inner()});
  return all + most_of(ArrayCounts::varying(even_rows(), {shape_.width}), {shape_.experts * shape_.width});
}

template <class T>
void ExpertsModule<T>::declare(ParameterList& list) {
  router_weight_ =
      list.add(whole_parameter(list.like(), shape_.name + ".router.weight", {shape_.experts, shape_.width}),
               normally_distributed(shape_.deviation));

  // cut: the dimension of the inner elements; 0: there is none.
  const auto of_experts = [&](const char* name, std::vector<std::int64_t> shape, std::size_t cut,
                              const InitialRule& rule) {
    DataParameter p =
        cut_along(whole_parameter(list.like(), shape_.name + name, std::move(shape)), 0, experts_, "ep", expert_ranks_);
    if (cut > 0) p = cut_along(std::move(p), cut, inner_, "etp", tensor_ranks_);
    return list.add_of_experts(std::move(p), rule);
  };
  const InitialRule random = normally_distributed(shape_.deviation);
  up_ = of_experts(".up.weight", {shape_.experts, shape_.inner, shape_.width}, 1, random);
  up_bias_ = of_experts(".up.bias", {shape_.experts, shape_.inner}, 1, all_equal_to(0));
  const InitialRule last = normally_distributed(shape_.last_deviation.value_or(shape_.deviation));
  down_ = of_experts(".down.weight", {shape_.experts, shape_.width, shape_.inner}, 2, last);
  down_bias_ = of_experts(".down.bias", {shape_.experts, shape_.width}, 0, all_equal_to(0));
}

/// Calls f with each expert, counted from this rank's first one, and its rows.
template <class T>
template <class F>
void ExpertsModule<T>::for_each_expert(const Dispatch<T>& way, const Rows& experts, const F& f) const {
  for (std::int64_t e = experts.first; e < experts.last; ++e)
    f(e, Rows{way.offsets()[static_cast<std::size_t>(e)], way.offsets()[static_cast<std::size_t>(e) + 1]});
}

template <class T>
void ExpertsModule<T>::first_layer(const Layer& of, const Dispatch<T>& way, const Rows& experts, const T* in,
                                   T* up) const {
  const std::int64_t width = shape_.width, f = inner();
  for_each_expert(way, experts, [&](std::int64_t e, const Rows& rows) {
    for (std::int64_t i = rows.first; i < rows.last; ++i) std::copy_n(of.bias.data() + e * f, f, up + i * f);
    group_.blas->multiply(product(false, true, rows.count(), f, width), T{1}, in + rows.first * width,
                          of.weight.data() + e * f * width, T{1}, up + rows.first * f);
  });
}

template <class T>
void ExpertsModule<T>::bend(const Dispatch<T>& way, std::size_t chunk, const T* up, T* bent) const {
  const Rows rows = way.rows_of_chunk(chunk);
  const std::int64_t f = inner();
  kernels::gelu(up + rows.first * f, bent + rows.first * f, static_cast<std::size_t>(rows.count() * f));
}

/// The outputs of gelu. They are made again, chunk by chunk as in the forward pass, if they were not kept.
template <class T>
const T* ExpertsModule<T>::bent_again(Pass<T>& pass, Kept<T>& kept) const {
  const Dispatch<T>& way = *static_cast<const Decision*>(kept.other.get())->way;
  PooledArray<T>& bent = kept.arrays[2];
  if (bent.size() == 0) {
    bent = pass.take(way.rows() * inner(), inner());
    for (std::size_t c = 0; c < way.chunks().size(); ++c) bend(way, c, kept.arrays[1].data(), bent.data());
  }
  return bent.data();
}

/// out = gate * the second layer of bent.
template <class T>
void ExpertsModule<T>::second_layer(const Layer& of, const Dispatch<T>& way, const Rows& experts, const T* bent,
                                    T* out) const {
  const std::int64_t width = shape_.width, f = inner();
  for_each_expert(way, experts, [&](std::int64_t e, const Rows& rows) {
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      for (std::int64_t c = 0; c < width; ++c) out[i * width + c] = adds_bias() ? of.bias.data()[e * width + c] : T{0};
    }
    group_.blas->multiply(product(false, true, rows.count(), width, f), T{1}, bent + rows.first * f,
                          of.weight.data() + e * width * f, T{1}, out + rows.first * width);
    for (std::int64_t i = rows.first; i < rows.last; ++i)
      kernels::scale(out + i * width, way.gates()[static_cast<std::size_t>(i)], static_cast<std::size_t>(width));
  });
}

template <class T>
void ExpertsModule<T>::route(Pass<T>& pass, const T* x, Decision& decision) {
  {
    const auto weight = pass.values(router_weight_);
    const PooledArray<T> logits = pass.take(own_rows_ * shape_.experts);
    group_.blas->multiply(product(false, true, own_rows_, shape_.experts, shape_.width), T{1}, x, weight.data(), T{0},
                          logits.data());
    RouterStates* const states = surroundings_.states;
    const std::span<const double> bias =
        states != nullptr ? std::as_const(*states).bias(surroundings_.layer) : std::span<const double>();
    decision.routed = router_.route({logits.data(), logits.size()}, own_rows_, bias);
  }
  SharedExperts<T>& all = shared();
  RouterStates::Pass counts{.z = decision.routed.z_loss, .tokens = own_rows_};
  if (all.balance) {
    auto balance = all.balance->of(decision.routed, where_);
    decision.pull = std::move(balance.pull);
    if (GroupPlace(*surroundings_.sequences).rank == 0) counts.auxiliary = balance.loss;  // which all of them know
  }
  const bool counts_it = surroundings_.states != nullptr && !pass.repeats;
  if (counts_it) surroundings_.states->load(surroundings_.layer).add(decision.routed);
  if (all.capacity) counts.dropped = all.capacity->apply(decision.routed.routing, where_);
  if (counts_it) surroundings_.states->add(counts);
  decision.way = all.dispatcher->plan(decision.routed.routing);
}

template <class T>
void ExpertsModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  const std::int64_t width = shape_.width, f = inner();
  auto decision = std::make_shared<Decision>();
  route(pass, x, *decision);
  Dispatch<T>& way = *decision->way;
  kept.other = decision;
  for (const std::int64_t columns : {width, f, f}) kept.arrays.push_back(pass.take(way.rows() * columns, columns));
  T *const in = kept.arrays[0].data(), *const up = kept.arrays[1].data(), *const bent = kept.arrays[2].data();
  const PooledArray<T> back = pass.take(way.rows() * width, width);
  const Layer first{pass.values(up_), pass.values(up_bias_)}, second{pass.values(down_), pass.values(down_bias_)};
  way.start(x);
  for (std::size_t c = 0; c < way.chunks().size(); ++c) {
    way.receive(c, in);
    first_layer(first, way, way.chunks()[c], in, up);
    bend(way, c, up, bent);
    second_layer(second, way, way.chunks()[c], bent, back.data());
    way.give_back(c, back.data());
  }
  way.collect(out);
  if (drops_) kept.arrays[2] = {};
}

template <class T>
void ExpertsModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  const std::int64_t width = shape_.width, f = inner();
  auto& decision = *static_cast<Decision*>(kept.other.get());
  Dispatch<T>& way = *decision.way;
  const T *const up = kept.arrays[1].data(), *const bent = bent_again(pass, kept);
  kept.gradients.clear();
  kept.gradients.push_back(pass.take(way.rows() * width, width));   // of what the second layers make
  kept.gradients.push_back(pass.take(way.rows() * f, f));           // of what the first layers make
  kept.gradients.push_back(pass.take(own_rows_ * shape_.experts));  // of the router's logits
  T *const d = kept.gradients[0].data(), *const dup = kept.gradients[1].data();
  const PooledArray<T> back = pass.take(way.rows() * width, width),
                       unwanted = pass.take(dx == nullptr ? in_elements() : 0);
  if (dx == nullptr) dx = unwanted.data();
  std::vector<T> of_gates(static_cast<std::size_t>(way.rows())), dgates(decision.routed.chosen.size());
  const auto first = pass.values(up_), second = pass.values(down_), bias = pass.values(down_bias_);
  way.start(dout);
  for (std::size_t c = 0; c < way.chunks().size(); ++c) {
    way.receive(c, d);
    for_each_expert(way, way.chunks()[c], [&](std::int64_t e, const Rows& rows) {
      group_.blas->multiply(product(false, false, rows.count(), f, width), T{1}, d + rows.first * width,
                            second.data() + e * width * f, T{0}, dup + rows.first * f);
      for (std::int64_t i = rows.first; i < rows.last; ++i) {
        T& of_gate = of_gates[static_cast<std::size_t>(i)];
        of_gate = kernels::dot(dup + i * f, bent + i * f, static_cast<std::size_t>(f));
        if (adds_bias())
          of_gate += kernels::dot(d + i * width, bias.data() + e * width, static_cast<std::size_t>(width));
        const T gate = way.gates()[static_cast<std::size_t>(i)];
        kernels::scale(dup + i * f, gate, static_cast<std::size_t>(f));
        kernels::scale(d + i * width, gate, static_cast<std::size_t>(width));
      }
      kernels::gelu_backward(up + rows.first * f, dup + rows.first * f, static_cast<std::size_t>(rows.count() * f));
      group_.blas->multiply(product(false, false, rows.count(), width, f), T{1}, dup + rows.first * f,
                            first.data() + e * f * width, T{0}, back.data() + rows.first * width);
    });
    way.give_back(c, back.data());
  }
  way.collect(dx);
  way.return_gates(of_gates.data(), dgates.data());
  const PooledArray<T>& dlogits = kept.gradients[2];
  if (drops_) kept.arrays[2] = {};
  router_.backward(decision.routed, dgates, pass.loss_scale, decision.pull, where_.sequence,
                   {dlogits.data(), dlogits.size()});
  const auto weight = pass.values(router_weight_);
  group_.blas->multiply(product(false, false, own_rows_, width, shape_.experts), T{1}, dlogits.data(), weight.data(),
                        T{1}, dx);
}

template <class T>
void ExpertsModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* /*dout*/) {
  const std::int64_t width = shape_.width, f = inner();
  const auto& decision = *static_cast<const Decision*>(kept.other.get());
  const Dispatch<T>& way = *decision.way;
  const T *const d = kept.gradients[0].data(), *const dup = kept.gradients[1].data(),
                 *const bent = bent_again(pass, kept);
  const auto add = [&](std::int32_t parameter, std::int64_t elements, const auto& gradient) {
    pass.add_gradient(parameter, [&](T* to, T beta) {
      for_each_expert(way, {0, experts_.count()},
                      [&](std::int64_t e, const Rows& rows) { gradient(rows, beta, to + e * elements); });
    });
    pass.ready(parameter);
  };
  const auto of_weight = [&](const T* dy, std::int64_t outputs, const T* in, std::int64_t inputs) {
    return [=, this](const Rows& rows, T beta, T* to) {
      group_.blas->multiply(product(true, false, outputs, inputs, rows.count()), T{1}, dy + rows.first * outputs,
                            in + rows.first * inputs, beta, to);
    };
  };
  const auto of_bias = [](const T* dy, std::int64_t outputs) {
    return [=](const Rows& rows, T beta, T* to) {
      sum_rows(dy + rows.first * outputs, rows.count(), outputs, outputs, beta, to);
    };
  };
  add(down_bias_, width, of_bias(d, width));
  add(down_, width * f, of_weight(d, width, bent, f));
  add(up_bias_, f, of_bias(dup, f));
  add(up_, f * width, of_weight(dup, f, kept.arrays[0].data(), width));
  add_replicated_gradient<T>(pass, router_weight_, shape_.experts * width,
                             group_.sequence_parallel ? &*group_.tensor : nullptr, [&](T* to) {
                               group_.blas->multiply(product(true, false, shape_.experts, width, own_rows_), T{1},
                                                     kept.gradients[2].data(), x, T{0}, to);
                             });
  kept.gradients.clear();
  kept.other.reset();
}

template class ExpertsModule<float>;
template class ExpertsModule<double>;

}  // namespace sinew::parallel

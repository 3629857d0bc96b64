#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/convert.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/modules/models/stage_copies.hpp>
#include <sinew/parallel/modules/sample_sums.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kCopies = "a parameter that two stages share";

std::int64_t number_of(const std::string& path) { return static_cast<std::int64_t>(hash_of(path)); }

/// The lists of all ranks, each of any length.
std::vector<std::vector<std::int64_t>> gather_lists(CallGroup group, const std::vector<std::int64_t>& mine) {
  const auto ranks = static_cast<std::size_t>(group->size());
  std::vector<std::int64_t> lengths(ranks);
  group->all_gather(std::vector<std::int64_t>{std::ssize(mine)}, lengths, group.options(kCopies)).get();
  const std::vector<std::uint64_t> counts(lengths.begin(), lengths.end());
  std::vector<std::int64_t> all;
  for (const std::int64_t length : lengths) all.resize(all.size() + static_cast<std::size_t>(length));
  group->all_gather_v(mine, all, {counts}, group.options(kCopies)).get();
  std::vector<std::vector<std::int64_t>> lists;
  auto at = all.begin();
  for (const std::int64_t length : lengths) {
    lists.emplace_back(at, at + length);
    at += length;
  }
  return lists;
}

}  // namespace

template <class T>
StageCopies<T>::StageCopies(CallGroup pipeline, std::vector<DataParameter> copies, DataParallel& dense)
    : pipeline_(pipeline), dense_(&dense) {
  if (GroupPlace(*pipeline).ranks > 1) {
    find_links(copies);
  } else if (!copies.empty()) {
    throw Error(Code::InvalidArgument,
                fmt::format("modules: '{}' is a copy of another stage's parameter, but the pipeline has one rank; "
                            "expected a shared parameter (TableOwner::Shared)",
                            copies.front().path));
  }
  for (DataParameter& record : complete_parameters(std::move(copies))) {
    const auto elements = static_cast<std::size_t>(record.elements);
    const std::size_t value = elements * size_of(record.dtype), gradient = elements * size_of(record.gradient_dtype());
    copies_.copies.push_back({std::move(record), std::vector<std::byte>(value), std::vector<std::byte>(gradient)});
  }
}

template <class T>
void StageCopies<T>::find_links(const std::vector<DataParameter>& copies) {
  std::vector<std::int64_t> wanted, owned;
  for (const DataParameter& p : copies) wanted.push_back(number_of(p.path));
  for (const DataParameter& p : dense_->parameters()) owned.push_back(number_of(p.path));
  const auto all_wanted = gather_lists(pipeline_, wanted);
  if (std::ranges::all_of(all_wanted, [](const auto& list) { return list.empty(); })) return;
  const auto all_owned = gather_lists(pipeline_, owned);
  const int me = pipeline_->rank();
  for (std::size_t copier = 0; copier < all_wanted.size(); ++copier) {
    for (std::size_t i = 0; i < all_wanted[copier].size(); ++i) {
      Link link{.owner = -1, .copier = static_cast<int>(copier), .copy = i};
      for (std::size_t r = 0; r < all_owned.size() && link.owner < 0; ++r) {
        const auto found = std::ranges::find(all_owned[r], all_wanted[copier][i]);
        if (found == all_owned[r].end()) continue;
        link.owner = static_cast<int>(r);
        link.parameter = static_cast<std::int32_t>(found - all_owned[r].begin());
      }
      if (link.owner < 0)
        throw Error(Code::InvalidArgument,
                    fmt::format("modules: copy {} on rank {} of the pipeline{} is of a parameter that no stage has, "
                                "expected one of another stage",
                                i, copier, link.copier == me ? fmt::format(", '{}',", copies[i].path) : ""));
      if (link.owner == me || link.copier == me) links_.push_back(link);
    }
  }
}

template <class T>
void StageCopies<T>::begin_step() {
  std::vector<Work> works;
  for (const Link& link : links_) {
    if (link.owner == pipeline_->rank()) {
      works.push_back(
          pipeline_->send(ConstBuffer(dense_->parameter(link.parameter)), link.copier, 0, pipeline_.options(kCopies)));
      continue;
    }
    ParameterCopies::Copy& copy = copies_.copies[link.copy];
    std::ranges::fill(copy.gradient, std::byte{});
    works.push_back(pipeline_->recv({copy.value.data(), copy.value.size()}, link.owner, 0, pipeline_.options(kCopies)));
  }
  for (Work& work : works) work.get();
}

template <class T>
ConstBuffer StageCopies<T>::gradient_of_copy(const Link& link, Pass<T>& pass) {
  const ParameterCopies::Copy& copy = copies_.copies[link.copy];
  if (pass.by_sample == nullptr) return {copy.gradient.data(), copy.gradient.size()};
  const std::span<T> samples = pass.by_sample->of_copy(ParameterList::copy(link.copy), copy.record.elements);
  return {reinterpret_cast<const std::byte*>(samples.data()), samples.size_bytes()};
}

template <class T>
void StageCopies<T>::end_step(Pass<T>& pass) {
  for (const Link& link : links_) {
    if (link.copier == pipeline_->rank()) {
      pipeline_->send(gradient_of_copy(link, pass), link.owner, 0, pipeline_.options(kCopies)).get();
      continue;
    }
    const DataParameter& record = dense_->parameters()[static_cast<std::size_t>(link.parameter)];
    const std::int64_t samples = pass.by_sample != nullptr ? pass.by_sample->samples() : 1;
    const DType dtype = pass.by_sample != nullptr ? kDTypeOf<T> : record.gradient_dtype();
    std::vector<std::byte> came(static_cast<std::size_t>(samples * record.elements) * size_of(dtype));
    pipeline_->recv({came.data(), came.size()}, link.copier, 0, pipeline_.options(kCopies)).get();
    const PooledArray<T> gradient = pass.take(samples * record.elements);
    convert(came.data(), dtype, reinterpret_cast<std::byte*>(gradient.data()), kDTypeOf<T>, samples * record.elements);
    if (pass.by_sample != nullptr) {
      pass.by_sample->add_of_copy(pass, link.parameter, {gradient.data(), gradient.size()}, kPredicts);
      continue;
    }
    pass.add_gradient(link.parameter, [&](T* to, T beta) {
      for (std::size_t i = 0; i < gradient.size(); ++i) to[i] = (beta == T{0} ? T{0} : to[i]) + gradient.data()[i];
    });
  }
}

template <class T>
std::size_t StageCopies<T>::held_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const ParameterCopies::Copy& copy : copies_.copies) bytes += copy.value.size() + copy.gradient.size();
  return bytes;
}

template class StageCopies<float>;
template class StageCopies<double>;

}  // namespace sinew::parallel

#pragma once

#include <cstring>
#include <gpt/model/store.hpp>
#include <gpt/parameters.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt::test {

/// A store in memory that holds a model to its contract: a unit's parameters are there between before_ and after_ only,
/// poisoned else; units come in their order; each gradient is reported as often as it is used, in its unit.
class StrictStore final : public Store {
 public:
  StrictStore(const Shape& shape, sinew::DType parameter, sinew::DType gradient, std::uint64_t seed)
      : infos_(gpt::parameters(shape)),
        parameter_(parameter),
        layers_(shape.layers),
        open_(static_cast<std::size_t>(shape.layers) + 1) {
    for (const ParameterInfo& info : infos_) {
      const auto n = static_cast<std::size_t>(info.elements());
      values_.emplace_back(n * size_of(parameter));
      gradients_.emplace_back(n * size_of(gradient));
      initialise(info, seed, 0, info.elements(), parameter, {values_.back().data(), values_.back().size()});
    }
    lent_ = values_;
    reports_.resize(infos_.size());
    for (std::size_t p = 0; p < infos_.size(); ++p) poison(p);
  }

  void before_forward(int unit) override {
    if (unit > 0) require(unit == next_forward_++, "blocks run forward in order");
    open(unit);
  }
  void after_forward(int unit) override {
    if (unit == 0) require(next_forward_ == layers_ + 1, "the root ends last");
    close(unit);
  }
  void before_backward(int unit) override {
    require(next_forward_ == layers_ + 1, "the backward pass comes after the forward pass");
    if (unit == 0) next_backward_ = layers_;
    if (unit > 0) require(unit == next_backward_--, "blocks run backward in order");
    open(unit);
    backward_ = true;
  }
  void after_backward(int unit) override {
    for (std::size_t p = 0; p < infos_.size(); ++p) {
      if (unit_of(p) == unit)
        require(reports_[p] == infos_[p].uses, infos_[p].path + " is not reported as often as used");
    }
    close(unit);
    if (unit > 0) return;
    next_forward_ = 1;
    backward_ = false;
    reports_.assign(reports_.size(), 0);
  }
  sinew::Buffer parameter(int p) override {
    require(open_[static_cast<std::size_t>(unit_of(at(p)))], infos_[at(p)].path + " outside its unit");
    return {lent_[at(p)].data(), lent_[at(p)].size()};
  }
  sinew::Buffer gradient(int p) override {
    require(backward_ && open_[static_cast<std::size_t>(unit_of(at(p)))],
            "a gradient outside its unit's backward pass");
    return {gradients_[at(p)].data(), gradients_[at(p)].size()};
  }
  void gradient_ready(int p) override {
    require(++reports_[at(p)] <= infos_[at(p)].uses, infos_[at(p)].path + " is reported too often");
  }

  const std::vector<ParameterInfo>& infos() const noexcept { return infos_; }
  template <class T>
  T& value(std::size_t p, std::size_t element) {
    return reinterpret_cast<T*>(values_[p].data())[element];
  }
  template <class T>
  const T& gradient_of(std::size_t p, std::size_t element) const {
    return reinterpret_cast<const T*>(gradients_[p].data())[element];
  }
  const std::vector<std::vector<std::byte>>& gradients() const noexcept { return gradients_; }
  void clear_gradients() {
    for (auto& g : gradients_) std::fill(g.begin(), g.end(), std::byte{});
  }

 private:
  static std::size_t at(int p) { return static_cast<std::size_t>(p); }
  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::logic_error(what);
  }
  int unit_of(std::size_t p) const {
    const std::string& unit = infos_[p].unit;  // "root", "blocks.3"
    return unit == "root" ? 0 : 1 + std::stoi(unit.substr(unit.find('.') + 1));
  }
  void open(int unit) {
    require(unit == 0 || open_[0], "the root is around all others");
    require(!open_[at(unit)], "a unit begins twice");
    open_[at(unit)] = true;
    for (std::size_t p = 0; p < infos_.size(); ++p) {
      if (unit_of(p) == unit) lent_[p] = values_[p];
    }
  }
  void close(int unit) {
    require(open_[at(unit)], "a unit ends that has not begun");
    open_[at(unit)] = false;
    for (std::size_t p = 0; p < infos_.size(); ++p) {
      if (unit_of(p) == unit) poison(p);
    }
  }
  void poison(std::size_t p) { std::memset(lent_[p].data(), 0xFF, lent_[p].size()); }  // all ones: NaN

  std::vector<ParameterInfo> infos_;
  sinew::DType parameter_;
  int layers_;
  std::vector<bool> open_;
  std::vector<std::vector<std::byte>> values_, lent_, gradients_;
  std::vector<int> reports_;
  int next_forward_ = 1, next_backward_ = 0;
  bool backward_ = false;
};

}  // namespace gpt::test

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/optim/update_rule/kernels.hpp>
#include <sinew/parallel/optim/update_rule/state_layout.hpp>

namespace sinew::parallel {
namespace {

constexpr double kLeastEpsilon = 1e-38;
constexpr std::size_t kNarrowBlock = 1024;  // elements of 16 bits that are computed at once

bool is_narrow(DType t) noexcept { return t == DType::BF16 || t == DType::F16; }

class Complaints {
 public:
  void unless(bool holds, std::string_view name, double found, std::string_view expected) {
    if (!std::isfinite(found)) expected = "a finite number";
    if (!holds || !std::isfinite(found)) all_.push_back(fmt::format("{} {}: expected {}", name, found, expected));
  }
  void raise(std::string_view who) const {
    if (!all_.empty()) throw Error(Code::InvalidArgument, fmt::format("{}: {}", who, fmt::join(all_, "; ")));
  }

 private:
  std::vector<std::string> all_;
};

void require_sound(const SgdOptions& o) {
  Complaints c;
  c.unless(o.rate >= 0, "rate", o.rate, "0 or more");
  c.unless(o.momentum >= 0 && o.momentum < 1, "momentum", o.momentum, "0 to below 1");
  c.unless(o.weight_decay >= 0, "weight_decay", o.weight_decay, "0 or more");
  c.unless(!o.nesterov || o.momentum > 0, "momentum", o.momentum, "more than 0 with nesterov");
  c.raise("sgd");
}

void require_sound(const AdamOptions& o) {
  Complaints c;
  c.unless(o.rate >= 0, "rate", o.rate, "0 or more");
  c.unless(o.beta1 >= 0 && o.beta1 < 1, "beta1", o.beta1, "0 to below 1");
  c.unless(o.beta2 >= 0 && o.beta2 < 1, "beta2", o.beta2, "0 to below 1");
  c.unless(o.epsilon >= kLeastEpsilon, "epsilon", o.epsilon, "1e-38 or more, which f32 holds");
  c.unless(o.weight_decay >= 0, "weight_decay", o.weight_decay, "0 or more");
  c.raise("adam");
}

AdamStep step_of(const AdamOptions& o, double rate, std::int64_t t, double scale) {
  const double n = static_cast<double>(t);
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .rate = rate / (1 - std::pow(o.beta1, n)),
          .root_scale = 1 / std::sqrt(1 - std::pow(o.beta2, n)),
          .keep = o.decoupled ? 1 - rate * o.weight_decay : 1,
          .decay = o.decoupled ? 0 : o.weight_decay,
          .scale = scale};
}

SgdStep step_of(const SgdOptions& o, double rate, std::int64_t t, double scale) {
  return {rate, o.momentum, o.weight_decay, scale, o.nesterov, t == 1};
}

template <class T>
void apply(const AdamStep& step, T* value, const T* gradient, T* state, std::size_t stride, std::size_t count) {
  adam(value, gradient, state, state + stride, count, step);
}
template <class T>
void apply(const SgdStep& step, T* value, const T* gradient, T* state, std::size_t, std::size_t count) {
  sgd(value, gradient, step.momentum > 0 ? state : nullptr, count, step);
}

void widen(const std::uint16_t* from, DType dtype, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] = dtype == DType::BF16 ? to_float(BFloat16{from[i]}) : to_float(Half{from[i]});
}
void narrow(const float* from, DType dtype, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] = dtype == DType::BF16 ? to_bfloat16(from[i]).bits : to_half(from[i]).bits;
}

/// state: the master values, then what the step keeps. Gradients: as narrow, or f32.
template <class Step>
void apply_narrow(const Step& step, const OwnedPart& part, float* state, std::size_t count) {
  auto* value = reinterpret_cast<std::uint16_t*>(part.value.data);
  const bool is_wide = part.gradient_dtype() == DType::F32;
  std::array<float, kNarrowBlock> block;
  for (std::size_t i = 0; i < count; i += kNarrowBlock) {
    const std::size_t n = std::min(kNarrowBlock, count - i);
    if (!is_wide) widen(reinterpret_cast<const std::uint16_t*>(part.gradient.data) + i, part.dtype, block.data(), n);
    const float* gradient = is_wide ? reinterpret_cast<const float*>(part.gradient.data) + i : block.data();
    apply(step, state + i, gradient, state + count + i, count, n);
    narrow(state + i, part.dtype, value + i, n);
  }
}

template <class T>
T* typed(Buffer b) noexcept {
  return reinterpret_cast<T*>(b.data);
}

template <class Step>
void apply_to(const Step& step, const OwnedPart& part, std::byte* state) {
  const auto count = static_cast<std::size_t>(part.last - part.first);
  if (is_narrow(part.dtype)) {
    apply_narrow(step, part, reinterpret_cast<float*>(state), count);
  } else if (part.dtype == DType::F32) {
    apply(step, typed<float>(part.value), typed<float>(part.gradient), reinterpret_cast<float*>(state), count, count);
  } else {
    apply(step, typed<double>(part.value), typed<double>(part.gradient), reinterpret_cast<double*>(state), count,
          count);
  }
}

void apply_on(DeviceKernels& device, const AdamStep& step, const OwnedPart& part, std::byte* state) {
  device.adam(part.dtype, part.gradient_dtype(), part.value.data, part.gradient.data, state, part.last - part.first,
              step);
}
void apply_on(DeviceKernels& device, const SgdStep& step, const OwnedPart& part, std::byte* state) {
  device.sgd(part.dtype, part.gradient_dtype(), part.value.data, part.gradient.data, state, part.last - part.first,
             step);
}

/// Null where the memory is of nobody's steps.
std::shared_ptr<StepProtocol::Member> member_of_steps(HeldMemory& memory) {
  return memory.step() == nullptr ? nullptr : memory.step()->join_as_optimizer();
}

}  // namespace

Optimizer::Optimizer(HeldMemory& memory, const SgdOptions& options)
    : memory_(&memory), member_(member_of_steps(memory)), options_(options), rate_(options.rate) {
  require_sound(options);
}
Optimizer::Optimizer(HeldMemory& memory, const AdamOptions& options)
    : memory_(&memory), member_(member_of_steps(memory)), options_(options), rate_(options.rate) {
  require_sound(options);
}

void Optimizer::make_state(std::span<const OwnedPart> parts) {
  StateLayout layout = std::visit([](const auto& o) { return StateLayout(o); }, options_);
  std::vector<Slot> slots;
  for (const OwnedPart& p : parts) {
    if (!is_narrow(p.dtype) && p.dtype != DType::F32 && p.dtype != DType::F64)
      throw Error(Code::InvalidArgument, fmt::format("optimizer: parameter {} is of {}, expected f16, bf16, f32 or f64",
                                                     p.parameter, name_of(p.dtype)));
    if (p.gradient_dtype() != p.dtype && !(is_narrow(p.dtype) && p.gradient_dtype() == DType::F32))
      throw Error(Code::InvalidArgument,
                  fmt::format("optimizer: the gradient of parameter {} is of {}, expected {}{}", p.parameter,
                              name_of(p.gradient_dtype()), name_of(p.dtype), is_narrow(p.dtype) ? " or f32" : ""));
    slots.push_back({p.parameter, p.first, p.last, p.dtype, layout.add(p.dtype, p.last - p.first)});
  }
  state_ = memory_->take(layout.bytes(), Purpose::Optimizer);
  slots_ = std::move(slots);
  if (state_.buffer().place.kind == MemoryKind::Device) kernels_.emplace(memory_->copies().device());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!is_narrow(parts[i].dtype)) continue;
    const std::int64_t count = parts[i].last - parts[i].first;
    auto* const master = reinterpret_cast<float*>(state_.buffer().data + slots_[i].offset);
    if (kernels_) {
      kernels_->convert(parts[i].dtype, DType::F32, parts[i].value.data, master, count);
    } else {
      widen(typed<std::uint16_t>(parts[i].value), parts[i].dtype, master, static_cast<std::size_t>(count));
    }
  }
}

void Optimizer::require_same(std::span<const OwnedPart> parts) const {
  const auto same = [](const OwnedPart& p, const Slot& s) {
    return p.parameter == s.parameter && p.first == s.first && p.last == s.last && p.dtype == s.dtype;
  };
  if (std::ranges::equal(parts, slots_, same)) return;
  throw Error(Code::InvalidArgument,
              fmt::format("optimizer: {} parts that are not the {} of its first step; expected the same ones",
                          parts.size(), slots_.size()));
}

/// Checks, before state is made, that all gradients were summed.
void Optimizer::require_gradients(std::span<const OwnedPart> parts) const {
  constexpr std::string_view kCall = "Optimizer::update()";
  StepProtocol* const step = memory_->step();
  if (step != nullptr) return require_sums(*step, kCall, parts);
  for (const OwnedPart& p : parts) {
    if (p.gradient.data == nullptr && p.first < p.last)
      throw Error(
          Code::InvalidArgument,
          fmt::format("optimizer: a part of parameter {} without a gradient; expected what finish_backward() returned",
                      p.parameter));
  }
}

void Optimizer::update(std::span<const OwnedPart> parts, double scale) {
  require_gradients(parts);
  if (slots_.empty() && !parts.empty()) make_state(parts);
  require_same(parts);
  if (member_) memory_->step()->update(*member_);
  ++steps_;
  std::visit(
      [&](const auto& options) {
        const auto step = step_of(options, rate_, steps_, scale);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          std::byte* const state = state_.buffer().data + slots_[i].offset;
          if (kernels_) {
            apply_on(*kernels_, step, parts[i], state);
          } else {
            apply_to(step, parts[i], state);
          }
        }
      },
      options_);
}

std::vector<StatePart> Optimizer::state(std::span<const OwnedPart> parts) {
  if (slots_.empty() && !parts.empty()) make_state(parts);
  require_same(parts);
  std::vector<StatePart> all;
  for (const Slot& s : slots_) {
    std::vector<std::string> kinds;
    if (is_narrow(s.dtype)) kinds.emplace_back("master");
    if (std::holds_alternative<AdamOptions>(options_)) {
      kinds.insert(kinds.end(), {"moment1", "moment2"});
    } else if (std::get<SgdOptions>(options_).momentum > 0) {
      kinds.emplace_back("momentum");
    }
    const DType held = s.dtype == DType::F64 ? DType::F64 : DType::F32;
    const std::size_t bytes = static_cast<std::size_t>(s.last - s.first) * size_of(held);
    for (std::size_t k = 0; k < kinds.size(); ++k)
      all.push_back(
          {s.parameter, s.first, s.last, std::move(kinds[k]), held, state_.buffer().part(s.offset + k * bytes, bytes)});
  }
  return all;
}

void Optimizer::restore_steps(std::int64_t steps) {
  if (steps < 0) throw Error(Code::InvalidArgument, fmt::format("optimizer: {} steps, expected 0 or more", steps));
  if (member_) memory_->step()->require_between_steps("Optimizer::restore_steps()");
  steps_ = steps;
}

}  // namespace sinew::parallel

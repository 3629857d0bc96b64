#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/kernels/device_kernels.hpp>

#include "parallel/kernels/on_compute_device.hpp"

namespace sinew::parallel {
namespace {

using testing::HasSubstr;

/// A number of each dtype.
double number_at(const std::byte* from, DType dtype, std::size_t i) {
  if (dtype == DType::F64) return reinterpret_cast<const double*>(from)[i];
  if (dtype == DType::F32) return reinterpret_cast<const float*>(from)[i];
  if (dtype == DType::BF16) return to_float(reinterpret_cast<const BFloat16*>(from)[i]);
  return to_float(reinterpret_cast<const Half*>(from)[i]);
}
void store_at(std::byte* to, DType dtype, std::size_t i, double x) {
  if (dtype == DType::F64) reinterpret_cast<double*>(to)[i] = x;
  if (dtype == DType::F32) reinterpret_cast<float*>(to)[i] = static_cast<float>(x);
  if (dtype == DType::BF16) reinterpret_cast<BFloat16*>(to)[i] = to_bfloat16(static_cast<float>(x));
  if (dtype == DType::F16) reinterpret_cast<Half*>(to)[i] = to_half(static_cast<float>(x));
}

using Numbers = std::vector<double>;

class DeviceKernelsOn : public OnComputeDevice {
 protected:
  std::byte* put(const Numbers& numbers, DType dtype) {
    std::vector<std::byte> host(numbers.size() * size_of(dtype));
    for (std::size_t i = 0; i < numbers.size(); ++i) store_at(host.data(), dtype, i, numbers[i]);
    return put_bytes(host);
  }
  Numbers get(const std::byte* from, DType dtype, std::size_t count) {
    const std::vector<std::byte> host = bytes_at(from, count * size_of(dtype));
    Numbers numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(number_at(host.data(), dtype, i));
    return numbers;
  }
  /// These numbers as elements of this dtype hold them.
  static Numbers rounded(const Numbers& numbers, DType dtype) {
    Numbers all;
    for (const double x : numbers) {
      std::byte bytes[sizeof(double)];
      store_at(bytes, dtype, 0, x);
      all.push_back(number_at(bytes, dtype, 0));
    }
    return all;
  }
  static void expect_near(const Numbers& found, const Numbers& expected, double allowed) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], allowed * std::max(1.0, std::abs(expected[i]))) << "element " << i;
  }
  static Numbers wave(std::size_t count, double scale, double phase) {
    Numbers all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(scale * std::sin(phase + 0.37 * static_cast<double>(i)));
    return all;
  }
};

struct Types {
  DType value, gradient;
  double allowed;
};
constexpr Types kTypes[] = {{DType::F64, DType::F64, 1e-13},  {DType::F32, DType::F32, 1e-5},
                            {DType::BF16, DType::BF16, 1e-2}, {DType::BF16, DType::F32, 1e-2},
                            {DType::F16, DType::F16, 1e-3},   {DType::F16, DType::F32, 1e-3}};
constexpr std::size_t kCounts[] = {1, 255, 256, 5000, 40000};

/// Three steps, by the formulas of the papers.
TEST_P(DeviceKernelsOn, Adam_MakesTheStepsOfThePaper) {
  for (const auto& [value, gradient, allowed] : kTypes) {
    for (const std::size_t count : kCounts) {
      const bool is_narrow = size_of(value) == 2;
      const DType wide = value == DType::F64 ? DType::F64 : DType::F32;
      Numbers x = rounded(wave(count, 2, 0.1), value), mean(count, 0.0), square(count, 0.0);
      std::byte* const values = put(x, value);
      Numbers state = is_narrow ? x : Numbers{};
      state.resize(state.size() + 2 * count, 0.0);
      std::byte* const kept = put(state, wide);
      DeviceKernels kernels(device_);
      for (int t = 1; t <= 3; ++t) {
        const Numbers g = rounded(wave(count, 1, t), gradient);
        const double rate = 0.01, beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8, decay = 0.1, scale = 0.5;
        const AdamStep step{.beta1 = beta1,
                            .beta2 = beta2,
                            .epsilon = epsilon,
                            .rate = rate / (1 - std::pow(beta1, t)),
                            .root_scale = 1 / std::sqrt(1 - std::pow(beta2, t)),
                            .keep = 1 - rate * decay,
                            .decay = 0,
                            .scale = scale};
        kernels.adam(value, gradient, values, put(g, gradient), kept, static_cast<std::int64_t>(count), step);
        for (std::size_t i = 0; i < count; ++i) {
          mean[i] = beta1 * mean[i] + (1 - beta1) * scale * g[i];
          square[i] = beta2 * square[i] + (1 - beta2) * scale * g[i] * scale * g[i];
          const double m = mean[i] / (1 - std::pow(beta1, t)), v = square[i] / (1 - std::pow(beta2, t));
          x[i] -= rate * decay * x[i] + rate * m / (std::sqrt(v) + epsilon);
        }
      }
      expect_near(get(values, value, count), x, allowed);
    }
  }
}

TEST_P(DeviceKernelsOn, Sgd_MakesTheStepsOfItsDefinition) {
  for (const auto& [value, gradient, allowed] : kTypes) {
    for (const double momentum : {0.0, 0.9}) {
      constexpr std::size_t kCount = 3001;
      const bool is_narrow = size_of(value) == 2;
      const DType wide = value == DType::F64 ? DType::F64 : DType::F32;
      Numbers x = rounded(wave(kCount, 2, 0.1), value), velocity(kCount, 0.0);
      std::byte* const values = put(x, value);
      Numbers state = is_narrow ? x : Numbers{};
      state.resize(state.size() + kCount, 0.0);
      std::byte* const kept = put(state, wide);
      DeviceKernels kernels(device_);
      for (int t = 1; t <= 3; ++t) {
        const Numbers g = rounded(wave(kCount, 1, t), gradient);
        const SgdStep step{
            .rate = 0.1, .momentum = momentum, .decay = 0.01, .scale = 2, .nesterov = momentum > 0, .first = t == 1};
        kernels.sgd(value, gradient, values, put(g, gradient), kept, kCount, step);
        for (std::size_t i = 0; i < kCount; ++i) {
          const double d = 2 * g[i] + 0.01 * x[i];
          velocity[i] = t == 1 ? d : momentum * velocity[i] + d;
          x[i] -= 0.1 * (momentum > 0 ? d + momentum * velocity[i] : d);
        }
      }
      expect_near(get(values, value, kCount), x, allowed);
    }
  }
}

TEST_P(DeviceKernelsOn, Convert_RoundsToNearestEven) {
  DeviceKernels kernels(device_);
  const Numbers numbers = wave(5001, 300, 0.2);
  for (const DType narrow : {DType::BF16, DType::F16}) {
    std::byte* const there = put(Numbers(numbers.size(), 0.0), narrow);
    kernels.convert(DType::F32, narrow, put(numbers, DType::F32), there, 5001);
    EXPECT_EQ(get(there, narrow, 5001), rounded(numbers, narrow));
    std::byte* const back = put(Numbers(numbers.size(), 0.0), DType::F32);
    kernels.convert(narrow, DType::F32, there, back, 5001);
    EXPECT_EQ(get(back, DType::F32, 5001), rounded(numbers, narrow));
  }
}

TEST_P(DeviceKernelsOn, Squares_AreSummedByRuns) {
  DeviceKernels kernels(device_);
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{200000}}) {
      const Numbers numbers = rounded(wave(count, 1, 0.5), dtype);
      const std::int64_t runs = DeviceKernels::square_sums(static_cast<std::int64_t>(count));
      std::byte* const sums = put(Numbers(static_cast<std::size_t>(runs), -1.0), DType::F64);
      kernels.squares(dtype, put(numbers, dtype), static_cast<std::int64_t>(count), reinterpret_cast<double*>(sums));
      double found = 0, expected = 0;
      for (const double s : get(sums, DType::F64, static_cast<std::size_t>(runs))) found += s;
      for (const double x : numbers) expected += x * x;
      EXPECT_NEAR(found, expected, 1e-12 * expected);
    }
  }
}

TEST_P(DeviceKernelsOn, RefuseDtypesForWhichThereIsNoKernel) {
  DeviceKernels kernels(device_);
  const auto refused = [](const auto& call, const std::string& text) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
  };
  refused([&] { kernels.squares(DType::I32, nullptr, 1, nullptr); },
          "squares on a device: there is no kernel for i32, expected one of f64, f32, bf16, f16");
  refused([&] { kernels.convert(DType::F64, DType::BF16, nullptr, nullptr, 1); },
          "convert on a device: there is no kernel for f64/bf16, expected one of f32/bf16, f32/f16, f64/f32,");
  refused([&] { kernels.convert(DType::F32, DType::F32, nullptr, nullptr, 1); }, "there is no kernel for f32,");
  refused([&] { kernels.adam(DType::F32, DType::BF16, nullptr, nullptr, nullptr, 1, {}); },
          "adam on a device: there is no kernel for f32/bf16");
  refused([&] { kernels.sgd(DType::F16, DType::BF16, nullptr, nullptr, nullptr, 1, {}); },
          "sgd on a device: there is no kernel for f16/bf16");
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceKernelsOn, testing::Values("fake", "block", "cuda"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace sinew::parallel

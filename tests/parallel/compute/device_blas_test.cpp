// Products of matrices in device memory, against their definition. All numbers are small integers, so that a sum is
// exact in every order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/compute/cublas.hpp>
#include <sinew/parallel/compute/opened_device.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/compute/staged_blas.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "../support/naive_blas.hpp"
#include "fakes/fake_blas.hpp"
#include "fakes/fake_cublas.hpp"
#include "fakes/fake_device.hpp"
#include "fakes/fake_graph.hpp"

namespace sinew::parallel {
namespace {

using testing::HasSubstr;

template <class T>
std::vector<T> integers(std::size_t count, unsigned seed) {
  std::vector<T> all(count);
  for (T& x : all) x = static_cast<T>(static_cast<int>((seed = seed * 1664525U + 1013904223U) >> 24U) % 15 - 7);
  return all;
}

/// The error's words.
template <class F>
std::string complaint(Code code, const F& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "no error";
}

/// A Blas on a device: that of the tests, cuBLAS by a fake library, or cuBLAS on a device of CUDA.
class DeviceBlas : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cublas") {
      if (const Availability can = cuda::available(); !can.ok) GTEST_SKIP() << can.reason;
      runtime_ = std::make_unique<cuda::Runtime>();
    } else {
      runtime_ = std::make_unique<fake::Device>();
    }
    device_ = {runtime_.get(), runtime_->make_stream(runtime_->device_count() - 1)};
    if (GetParam() == "fake") blas_ = std::make_unique<fake::FakeBlas>(device_);
    if (GetParam() == "fake_cublas") blas_ = make_cublas(device_, {.library = FAKE_CUBLAS});
    if (GetParam() == "cublas") {
      try {
        blas_ = make_cublas(device_);
      } catch (const Error& e) {
        if (e.code() != Code::Unavailable) throw;
        GTEST_SKIP() << e.what();
      }
    }
  }
  void TearDown() override {
    if (!runtime_) return;
    drain(*runtime_, device_.stream);
    blas_.reset();
    for (const Buffer b : made_) runtime_->release(b);
    runtime_->release(device_.stream);
  }

  /// Device memory with these elements.
  template <class T>
  T* put(const std::vector<T>& host) {
    made_.push_back(runtime_->allocate(host.size() * sizeof(T), place_of(device_)));
    runtime_->copy_async(made_.back(), {reinterpret_cast<const std::byte*>(host.data()), host.size() * sizeof(T)},
                         device_.stream);
    drain(*runtime_, device_.stream);
    return reinterpret_cast<T*>(made_.back().data);
  }
  template <class T>
  std::vector<T> get(const T* from, std::size_t count) {
    std::vector<T> host(count);
    runtime_->copy_async({reinterpret_cast<std::byte*>(host.data()), count * sizeof(T)},
                         {reinterpret_cast<const std::byte*>(from), count * sizeof(T), place_of(device_)},
                         device_.stream);
    drain(*runtime_, device_.stream);
    return host;
  }

  /// Compares all elements of the memory of c, those between its rows and matrices too.
  template <class T>
  void compare(const Product& p, const Batch& batch, T alpha, T beta) {
    constexpr std::size_t kElements = 1200;
    const std::vector<T> a = integers<T>(kElements, 1), b = integers<T>(kElements, 2);
    std::vector<T> expected = integers<T>(kElements, 3);
    T* const c = put(expected);
    if (batch.products == 1) {
      blas_->multiply(p, alpha, put(a), put(b), beta, c);
    } else {
      blas_->multiply_all(p, batch, alpha, put(a), put(b), beta, c);
    }
    test::NaiveBlas().multiply_all(p, batch, alpha, a.data(), b.data(), beta, expected.data());
    EXPECT_EQ(get(c, kElements), expected)
        << "m, n, k = " << p.m << ' ' << p.n << ' ' << p.k << ", transposed " << p.a_transposed << p.b_transposed
        << ", rows apart " << p.la << ' ' << p.lb << ' ' << p.lc << ", " << batch.products << " products apart "
        << batch.a << ' ' << batch.b << ' ' << batch.c << ", alpha " << alpha << ", beta " << beta;
    for (const Buffer x : made_) runtime_->release(x);
    made_.clear();
  }
  template <class T>
  void compare_forms() {
    struct Sizes {
      int m, n, k;
    };
    for (const auto [m, n, k] : {Sizes{1, 1, 1}, Sizes{7, 3, 5}, Sizes{4, 8, 2}, Sizes{1, 13, 9}, Sizes{11, 1, 6}}) {
      for (const bool a_transposed : {false, true}) {
        for (const bool b_transposed : {false, true}) {
          const int a_row = a_transposed ? m : k, b_row = b_transposed ? k : n;
          compare<T>({a_transposed, b_transposed, m, n, k, a_row, b_row, n}, {}, 1, 0);
          const Product apart{a_transposed, b_transposed, m, n, k, a_row + 2, b_row + 3, n + 1};
          for (const T beta : {T{0}, T{1}, T{-2}}) compare<T>(apart, {}, T{3}, beta);
          compare<T>(apart, {3, 200, 250, 300}, T{-1}, T{1});
          compare<T>(apart, {4, 0, 210, 150}, T{1}, T{0});
          compare<T>(apart, {2, 180, 0, 400}, T{0}, T{2});
          compare<T>(apart, {2, 0, 0, 160}, T{1}, T{1});
          Product between = apart;  // the rows of a product are between those of the others
          between.lc = 3 * n + 1;
          compare<T>(between, {3, 100, 110, n}, T{1}, T{1});
        }
      }
    }
  }
  std::unique_ptr<DeviceRuntime> runtime_;
  ComputeDevice device_;
  std::unique_ptr<Blas> blas_;
  std::vector<Buffer> made_;
};

TEST_P(DeviceBlas, MultipliesAsDefined) {
  compare_forms<float>();
  compare_forms<double>();
}

TEST_P(DeviceBlas, TakesMatricesWithoutElements) {
  for (const bool transposed : {false, true}) {
    for (const int products : {1, 3}) {
      const Batch batch{products, 100, 100, 100};
      compare<double>({transposed, transposed, 0, 4, 3, 8, 8, 8}, batch, 1, 2);
      compare<double>({transposed, transposed, 4, 0, 3, 8, 8, 8}, batch, 1, 2);
      compare<double>({transposed, transposed, 4, 3, 0, 0, 0, 8}, batch, 1, 2);
      compare<double>({transposed, transposed, 4, 3, 0, 8, 8, 8}, batch, 1, 0);
    }
  }
  compare<float>({.m = 4, .n = 3, .k = 2, .la = 2, .lb = 3, .lc = 3}, {.products = 0}, 1, 2);
}

TEST_P(DeviceBlas, NamesItsDevice) {
  EXPECT_EQ(blas_->device().runtime, runtime_.get());
  EXPECT_EQ(blas_->device().stream.stream, device_.stream.stream);
  EXPECT_EQ(blas_->device().stream.device, device_.stream.device);
}

/// Layers call a Blas of the host with memory of the host.
TEST_P(DeviceBlas, MultipliesMatricesOfTheHost_ThroughCopies) {
  StagedBlas staged(std::shared_ptr<Blas>(blas_.get(), [](Blas*) {}));
  EXPECT_FALSE(staged.device().exists());
  for (const int k : {0, 3, 40, 5}) {
    const Product p{.a_transposed = true, .m = 6, .n = 4, .k = k, .la = 8, .lb = 5, .lc = 7};
    const std::vector<double> a = integers<double>(400, 4), b = integers<double>(400, 5);
    std::vector<double> found = integers<double>(60, 6), expected = found;
    staged.multiply(p, 2.0, a.data(), b.data(), -1.0, found.data());
    test::NaiveBlas().multiply(p, 2.0, a.data(), b.data(), -1.0, expected.data());
    EXPECT_EQ(found, expected) << k;
  }
}

const auto name_of = [](const testing::TestParamInfo<std::string>& info) { return info.param; };
INSTANTIATE_TEST_SUITE_P(On, DeviceBlas, testing::Values("fake", "fake_cublas", "cublas"), name_of);

/// Fake devices show what a call refuses, and what a graph captures.
class FakeDeviceBlas : public DeviceBlas {};
INSTANTIATE_TEST_SUITE_P(On, FakeDeviceBlas, testing::Values("fake", "fake_cublas"), name_of);

TEST_P(FakeDeviceBlas, RefusesWhatADeviceCannotTouch) {
  const Product p{.m = 3, .n = 4, .k = 5, .la = 5, .lb = 4, .lc = 4};
  const bool is_cublas = GetParam() == "fake_cublas";
  const float* const a = put(integers<float>(15, 1));
  const float* const b = put(integers<float>(20, 2));
  float* const c = put(integers<float>(12, 3));
  std::vector<float> host(20);
  const auto why = [&](const Product& q, const Batch& batch, const float* y) {
    return complaint(Code::System, [&] { blas_->multiply_all(q, batch, 1.0F, a, y, 0.0F, c); });
  };
  EXPECT_THAT(why(p, {}, host.data()), HasSubstr(is_cublas ? "cuBLAS: 1 product(s) of [3, 5] and [5, 4] ends with "
                                                             "CUBLAS_STATUS_EXECUTION_FAILED"
                                                           : "b is not in memory of device 3"));
  EXPECT_THAT(why(p, {2, 0, 1, 12}, b), HasSubstr(is_cublas ? "2 product(s) of [3, 5] and [5, 4] ends with "
                                                              "CUBLAS_STATUS_EXECUTION_FAILED"
                                                            : "b: fake device: 84 bytes at 0 of an allocation of 80"));
  EXPECT_THAT(why(p, {2, 0, 0, 0}, b),
              HasSubstr(is_cublas ? "CUBLAS_STATUS_INVALID_VALUE" : "2 products have one result"));
  Product narrow = p;
  narrow.la = 4;
  EXPECT_THAT(why(narrow, {}, b), HasSubstr(is_cublas ? "CUBLAS_STATUS_INVALID_VALUE"
                                                      : "a has rows of 5 elements, 4 from one to the next"));
  EXPECT_EQ(why(p, {}, b), "no error");
}

/// A captured product runs when its graph does, on what the operands are then.
TEST_P(FakeDeviceBlas, IsCapturedIntoAGraph) {
  auto& runtime = dynamic_cast<fake::Device&>(*runtime_);
  const Product p{.m = 1, .n = 1, .k = 1, .la = 1, .lb = 1, .lc = 1};
  const double* const a = put(std::vector<double>{3});
  double* const c = put(std::vector<double>{5});
  runtime.begin_capture(device_.stream);
  blas_->multiply(p, 1.0, a, a, 1.0, c);
  const auto graph = runtime.end_capture(device_.stream);
  EXPECT_EQ(get(c, 1), std::vector<double>{5});
  for (int i = 0; i < 2; ++i) runtime.replay(*graph, device_.stream);
  EXPECT_EQ(get(c, 1), std::vector<double>{5 + 2 * 9});
}

/// cuBLAS by a fake library.
class FakeCublas : public testing::Test {
 protected:
  ~FakeCublas() override { runtime_.release(device_.stream); }
  std::unique_ptr<Blas> make(const CublasOptions& options = {.library = FAKE_CUBLAS}) {
    return make_cublas(device_, options);
  }
  std::string why_not(const CublasOptions& options) {
    return complaint(Code::Unavailable, [&] { (void)make(options); });
  }

  fake::Device runtime_;
  ComputeDevice device_{&runtime_, runtime_.make_stream(2)};
};

TEST_F(FakeCublas, SaysWhichLibraryOrFunctionIsMissing) {
  EXPECT_THAT(why_not({.library = "libnone.so.7"}),
              HasSubstr("cuBLAS: no library was found; expected libnone.so.7: libnone.so.7: cannot open"));
  EXPECT_THAT(why_not({.library = "libm.so.6"}), HasSubstr("libm.so.6: it has no cublasCreate_v2"));
}

TEST_F(FakeCublas, NamesTheStatusOfEachCall_AndLeavesNothing) {
  const auto why = [&](const char* function, int status) {
    fake_cublas_fail(function, status);
    return why_not({.library = FAKE_CUBLAS});
  };
  EXPECT_EQ(why("cublasCreate_v2", 1), "cuBLAS: cublasCreate on device 2 ends with CUBLAS_STATUS_NOT_INITIALIZED");
  EXPECT_EQ(why("cublasSetStream_v2", 8), "cuBLAS: cublasSetStream ends with CUBLAS_STATUS_ARCH_MISMATCH");
  EXPECT_EQ(why("cublasSetWorkspace_v2", 3), "cuBLAS: cublasSetWorkspace ends with CUBLAS_STATUS_ALLOC_FAILED");
  EXPECT_EQ(why("cublasSetMathMode", 99), "cuBLAS: cublasSetMathMode ends with status 99");
  EXPECT_EQ(fake_cublas_handles(), 0);
  EXPECT_EQ(fake::current_device(), -1);
}

TEST_F(FakeCublas, NamesTheStatusOfAProduct) {
  const auto blas = make();
  EXPECT_EQ(fake_cublas_handles(), 1);
  const Buffer memory = runtime_.allocate(64, {MemoryKind::Device, 2});
  auto* const x = reinterpret_cast<double*>(memory.data);
  const Product p{.m = 1, .n = 2, .k = 1, .la = 1, .lb = 2, .lc = 2};
  const auto why = [&](const char* function, int status, int products) {
    fake_cublas_fail(function, status);
    return complaint(Code::System, [&] { blas->multiply_all(p, {products, 0, 0, 2}, 1.0, x, x, 0.0, x + 4); });
  };
  EXPECT_EQ(why("cublasDgemm_v2", 14, 1),
            "cuBLAS: 1 product(s) of [1, 1] and [1, 2] ends with CUBLAS_STATUS_INTERNAL_ERROR");
  EXPECT_EQ(why("cublasDgemmStridedBatched", 11, 2),
            "cuBLAS: 2 product(s) of [1, 1] and [1, 2] ends with CUBLAS_STATUS_MAPPING_ERROR");
  EXPECT_EQ(fake::current_device(), -1);
  runtime_.release(memory);
}

/// One call of the library makes all products of a batch.
TEST_F(FakeCublas, UsesTF32OnlyIfAsked) {
  const Buffer memory = runtime_.allocate(64, {MemoryKind::Device, 2});
  auto* const x = reinterpret_cast<float*>(memory.data);
  const Product p{.m = 1, .n = 1, .k = 1, .la = 1, .lb = 1, .lc = 1};
  for (const bool tf32 : {false, true}) {
    const int products = fake_cublas_products(), with_tf32 = fake_cublas_tf32_products();
    const auto blas = make({.tf32 = tf32, .library = FAKE_CUBLAS});
    blas->multiply_all(p, {3, 0, 0, 1}, 1.0F, x, x, 0.0F, x + 4);
    EXPECT_EQ(fake_cublas_products() - products, 1);
    EXPECT_EQ(fake_cublas_tf32_products() - with_tf32, tf32 ? 1 : 0);
    drain(runtime_, device_.stream);
  }
  EXPECT_EQ(fake_cublas_handles(), 0);
  runtime_.release(memory);
}

TEST_F(FakeCublas, RefusesTheHost) {
  EXPECT_EQ(complaint(Code::InvalidArgument, [] { (void)make_cublas(ComputeDevice{}); }),
            "cuBLAS: found the host, expected a device");
}

TEST(OpenedDevice, SaysWhyThereIsNoDevice) {
  const Availability can = cuda::available();
  if (can.ok) GTEST_SKIP() << "this machine has a device of CUDA";
  EXPECT_EQ(complaint(Code::Unavailable, [] { OpenedDevice("cuda"); }), "device 'cuda': " + can.reason);
  EXPECT_EQ(complaint(Code::Unavailable, [] { (void)make_cublas(); }), "device 'cuda:0': " + can.reason);
}

}  // namespace
}  // namespace sinew::parallel

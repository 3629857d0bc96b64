#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "fakes/block/block_kernels.hpp"
#include "fakes/fake_device.hpp"
#include "fakes/fake_kernels.hpp"

namespace sinew::parallel {

/// A runtime that counts launches, and whose devices have as many multiprocessors as a test wants.
class CountingRuntime {
 public:
  virtual ~CountingRuntime() = default;
  int multiprocessors = 0;  ///< 0: as many as the device has
  int launches = 0;
};
template <class Runtime>
class Counting final : public Runtime, public CountingRuntime {
 public:
  DeviceRuntime::Traits traits(int device) override {
    DeviceRuntime::Traits t = Runtime::traits(device);
    if (multiprocessors > 0) t.multiprocessors = multiprocessors;
    return t;
  }
  void launch(const DeviceProgram& program, const KernelLaunch& launch, StreamRef stream) override {
    ++launches;
    Runtime::launch(program, launch, stream);
  }
};

/// A device that computes: "cuda", or a fake one. The teams of "fake" have one thread, and those of "block" as many as
/// CUDA's.
class OnComputeDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "cuda") {
      GetParam() == "fake" ? fake::add_parallel_kernels() : fake::add_block_kernels();
      use(std::make_unique<Counting<fake::Device>>());
    } else {
      if (const Availability can = cuda::available(); !can.ok) GTEST_SKIP() << can.reason;
      if (const Availability can = cuda::kernels_available(); !can.ok) GTEST_SKIP() << can.reason;
      use(std::make_unique<Counting<cuda::Runtime>>());
    }
    device_ = {runtime_.get(), runtime_->make_stream(0)};
  }
  void TearDown() override {
    if (!runtime_) return;
    drain(*runtime_, device_.stream);
    free_bytes();
    runtime_->release(device_.stream);
  }

  /// Memory of the device with these bytes, until free_bytes().
  std::byte* put_bytes(std::span<const std::byte> bytes) {
    made_.push_back(runtime_->allocate(bytes.empty() ? 1 : bytes.size(), {MemoryKind::Device, 0}));
    std::byte* const there = made_.back().data;
    set_bytes(there, bytes);
    return there;
  }
  void free_bytes() {
    for (const Buffer b : made_) runtime_->release(b);
    made_.clear();
  }
  void set_bytes(std::byte* there, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    runtime_->copy_async({there, bytes.size(), {MemoryKind::Device, 0}}, ConstBuffer{bytes.data(), bytes.size()},
                         device_.stream);
    drain(*runtime_, device_.stream);
  }
  std::vector<std::byte> bytes_at(const std::byte* there, std::size_t bytes) {
    std::vector<std::byte> host(bytes);
    if (bytes == 0) return host;
    runtime_->copy_async({host.data(), bytes}, ConstBuffer{there, bytes, {MemoryKind::Device, 0}}, device_.stream);
    drain(*runtime_, device_.stream);
    return host;
  }

  std::unique_ptr<DeviceRuntime> runtime_;
  CountingRuntime* counting_ = nullptr;  // the same object
  ComputeDevice device_;

 private:
  template <class Runtime>
  void use(std::unique_ptr<Runtime> runtime) {
    counting_ = runtime.get();
    runtime_ = std::move(runtime);
  }

  std::vector<Buffer> made_;
};

}  // namespace sinew::parallel

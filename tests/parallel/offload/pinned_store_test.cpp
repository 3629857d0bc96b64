// The fake device's memory faults when the host touches it, and its streams run late and in any order.
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fakes/fake_device.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/offload/pinned_store.hpp>

namespace sinew::parallel {
namespace {

using ::testing::HasSubstr;

Bytes numbers(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  Bytes all(bytes);
  for (std::byte& b : all) b = static_cast<std::byte>(random());
  return all;
}

class PinnedStoreTest : public ::testing::Test {
 protected:
  PinnedStoreTest() : engine_(device_.make_stream(1)) {}
  ~PinnedStoreTest() override { device_.release(engine_); }

  Buffer array(std::size_t bytes) { return device_.allocate(bytes, {MemoryKind::Device, 1}); }
  /// Work of the engine that writes an array.
  void compute(Buffer to, const Bytes& values) {
    device_.copy_async(to, ConstBuffer(values.data(), values.size()), engine_);
  }
  /// Values of an array, behind the engine's work.
  Bytes values_of(Buffer from) {
    Bytes values(from.bytes);
    device_.copy_async({values.data(), values.size()}, from, engine_);
    drain(device_, engine_);
    return values;
  }

  fake::Device device_;
  StreamRef engine_;
};

TEST_F(PinnedStoreTest, BringsBackDeviceMemory) {
  PinnedStore store(device_, engine_);
  for (const std::size_t bytes : {1, 64, 1000, 70'000}) {
    const Bytes first = numbers(bytes, 1), second = numbers(bytes, 2);
    const Buffer memory = array(bytes), other = array(bytes);
    compute(memory, first);
    const auto slot = store.write(memory);  // the engine's work has not run
    store.wait(slot);
    compute(memory, second);  // the array serves other things
    store.read(slot, other);
    store.wait(slot);
    EXPECT_EQ(values_of(other), first);
    EXPECT_EQ(values_of(memory), second);
    while (!store.done(slot)) {
    }
    store.release(slot);
    device_.release(memory);
    device_.release(other);
  }
  EXPECT_EQ(store.stored_bytes(), 0);
}

/// An array that comes back is written only after the engine's work that still reads its memory.
TEST_F(PinnedStoreTest, ReadsBehindTheEnginesWork) {
  PinnedStore store(device_, engine_);
  const std::size_t bytes = 5000;
  const Bytes first = numbers(bytes, 1), second = numbers(bytes, 2);
  const Buffer memory = array(bytes), copy = array(bytes);
  for (int i = 0; i < 20; ++i) {
    compute(memory, first);
    const auto slot = store.write(memory);
    store.wait(slot);
    compute(memory, second);
    device_.copy_async(copy, memory, engine_);
    store.read(slot, memory);
    store.wait(slot);
    EXPECT_EQ(values_of(copy), second);
    EXPECT_EQ(values_of(memory), first);
    store.release(slot);
  }
  device_.release(memory);
  device_.release(copy);
}

TEST_F(PinnedStoreTest, UsesPinnedMemoryAgain) {
  PinnedStore store(device_, engine_);
  const Buffer memory = array(10'000);
  std::size_t pinned = 0;
  for (int step = 0; step < 10; ++step) {
    const Bytes values = numbers(memory.bytes, static_cast<unsigned>(step));
    compute(memory, values);
    const auto a = store.write(memory), b = store.write(memory.part(0, 9'900));
    EXPECT_EQ(store.stored_bytes(), 19'900);
    store.release(b);  // its copy may not have run
    store.read(a, memory);
    store.wait(a);
    EXPECT_EQ(values_of(memory), values);
    store.release(a);
    if (step == 0) pinned = store.pinned_bytes();
  }
  EXPECT_EQ(store.pinned_bytes(), pinned);
  EXPECT_LT(pinned, 24'000);
  device_.release(memory);
}

TEST_F(PinnedStoreTest, PassesOnErrorsAndBeginsNothing) {
  PinnedStore store(device_, engine_);
  const Buffer memory = array(100);
  device_.fail_next("out of pinned memory");
  std::string said;
  try {
    store.write(memory);
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_THAT(said, HasSubstr("out of pinned memory"));
  EXPECT_EQ(store.stored_bytes(), 0);
  const auto slot = store.write(memory);
  try {
    store.read(slot, memory.part(0, 50));
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_THAT(said, HasSubstr("50 bytes of an array of 100"));
  store.release(slot);
  drain(device_, engine_);
  device_.release(memory);
}

}  // namespace
}  // namespace sinew::parallel

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "support/collective_case.hpp"
#include "support/log_guard.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

class CudaRuntime : public testing::Test {
 protected:
  void SetUp() override {
    if (const Availability can = cuda::available(); !can.ok) GTEST_SKIP() << can.reason;
    runtime_ = std::make_unique<cuda::Runtime>();
    stream_ = runtime_->make_stream(0);
  }
  void TearDown() override {
    if (!runtime_) return;
    drain();
    for (const Buffer b : made_) runtime_->release(b);
    runtime_->release(stream_);
  }
  void drain() { sinew::drain(*runtime_, stream_); }
  Buffer make(std::size_t bytes, MemoryKind kind = MemoryKind::Device) {
    made_.push_back(runtime_->allocate(bytes, {kind, 0}));
    return made_.back();
  }
  template <class T>
  Buffer put(const std::vector<T>& values) {
    const Buffer pinned = make(values.size() * sizeof(T), MemoryKind::PinnedHost);
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(pinned.data));
    const Buffer on_device = make(pinned.bytes);
    runtime_->copy_async(on_device, pinned, stream_);
    return on_device;
  }
  template <class T>
  std::vector<T> get(Buffer from) {
    const Buffer pinned = make(from.bytes, MemoryKind::PinnedHost);
    runtime_->copy_async(pinned, from, stream_);
    drain();
    const auto* first = reinterpret_cast<const T*>(pinned.data);
    return {first, first + from.bytes / sizeof(T)};
  }

  std::unique_ptr<cuda::Runtime> runtime_;
  StreamRef stream_;
  std::vector<Buffer> made_;
};

TEST_F(CudaRuntime, KnowsWhereMemoryLies) {
  int local = 0;
  EXPECT_EQ(runtime_->place_of(&local), Place{});
  EXPECT_EQ(runtime_->place_of(make(100).data + 99), (Place{MemoryKind::Device, 0}));
  EXPECT_EQ(runtime_->place_of(make(100, MemoryKind::PinnedHost).data), (Place{MemoryKind::PinnedHost, 0}));
}

template <class F>
F* driver_function(const char* name) {
  static void* const kLibrary = ::dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<F*>(::dlsym(kLibrary, name));
}

TEST_F(CudaRuntime, SeesACapture_AndDoesNotBreakIt) {
  auto* const begin = driver_function<cuda::Result(cuda::Stream, int)>("cuStreamBeginCapture_v2");
  auto* const end = driver_function<cuda::Result(cuda::Stream, void**)>("cuStreamEndCapture");
  ASSERT_TRUE(begin != nullptr && end != nullptr);
  const Buffer memory = make(64);
  const DeviceRuntime::Event event = runtime_->record(stream_);
  const StreamRef captured = runtime_->make_stream(0);
  EXPECT_EQ(runtime_->capture_of(captured), 0U);
  const cuda::Current current(runtime_->context_of(0));
  constexpr int kGlobal = 0;
  ASSERT_EQ(begin(static_cast<cuda::Stream>(captured.stream), kGlobal), cuda::kSuccess);
  EXPECT_NE(runtime_->capture_of(captured), 0U);
  EXPECT_EQ(runtime_->capture_of(stream_), 0U);
  while (!runtime_->query(event)) std::this_thread::yield();
  runtime_->copy_async(memory.part(0, 32), memory.part(32, 32), captured);
  void* graph = nullptr;
  EXPECT_EQ(end(static_cast<cuda::Stream>(captured.stream), &graph), cuda::kSuccess);
  EXPECT_EQ(runtime_->capture_of(captured), 0U);
  runtime_->release(event);
  runtime_->release(captured);
}

/// Memory that is allocated while the stream is captured does not break the capture. A stream that waits for an event
/// of the capture joins it.
TEST_F(CudaRuntime, ACaptureIsReplayed_WithMemoryAndStreamsThatCameLater) {
  auto* const begin = driver_function<cuda::Result(cuda::Stream, int)>("cuStreamBeginCapture_v2");
  auto* const end = driver_function<cuda::Result(cuda::Stream, void**)>("cuStreamEndCapture");
  auto* const make_executable =
      driver_function<cuda::Result(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags");
  auto* const launch = driver_function<cuda::Result(void*, cuda::Stream)>("cuGraphLaunch");
  ASSERT_TRUE(begin != nullptr && end != nullptr && make_executable != nullptr && launch != nullptr);
  const Buffer from = put<std::int32_t>({1, 2, 3, 4});
  drain();
  const StreamRef captured = runtime_->make_stream(0), branch = runtime_->make_stream(0);
  const cuda::Current current(runtime_->context_of(0));
  constexpr int kGlobal = 0;
  ASSERT_EQ(begin(static_cast<cuda::Stream>(captured.stream), kGlobal), cuda::kSuccess);
  const Buffer between = make(from.bytes), to = make(from.bytes);
  runtime_->copy_async(between, from, captured);
  const DeviceRuntime::Event fork = runtime_->record(captured);
  runtime_->wait(branch, fork);
  EXPECT_EQ(runtime_->capture_of(branch), runtime_->capture_of(captured));
  runtime_->copy_async(to, between, branch);
  const DeviceRuntime::Event joint = runtime_->record(branch);
  runtime_->wait(captured, joint);
  void* graph = nullptr;
  void* executable = nullptr;
  ASSERT_EQ(end(static_cast<cuda::Stream>(captured.stream), &graph), cuda::kSuccess);
  EXPECT_EQ(runtime_->capture_of(branch), 0U);
  ASSERT_EQ(make_executable(&executable, graph, 0), cuda::kSuccess);
  for (const std::int32_t turn : {5, 6}) {
    runtime_->copy_async(from, put<std::int32_t>({turn, turn, turn, turn}), stream_);
    ASSERT_EQ(launch(executable, static_cast<cuda::Stream>(stream_.stream)), cuda::kSuccess);
    EXPECT_EQ(get<std::int32_t>(to), std::vector<std::int32_t>(4, turn));
  }
  for (const DeviceRuntime::Event event : {fork, joint}) runtime_->release(event);
  for (const StreamRef stream : {captured, branch}) runtime_->release(stream);
}

TEST_F(CudaRuntime, TellsDevicesApart_AndLendsThemToAThread) {
  EXPECT_FALSE(runtime_->traits(0).bus_id.empty());
  EXPECT_GE(runtime_->traits(0).compute_capability, 50);
  if (runtime_->device_count() > 1) {
    EXPECT_NE(runtime_->traits(0).bus_id, runtime_->traits(1).bus_id);
  }
  std::thread([this] {
    EXPECT_EQ(runtime_->make_current(0), -1);
    EXPECT_EQ(runtime_->make_current(-1), 0);
  }).join();
}

TEST_F(CudaRuntime, SetsMemoryToZero) {
  const Buffer there = put(std::vector<float>{1, 2, 3, 4, 5});
  runtime_->zero_async(there.part(4, 12), stream_);
  EXPECT_EQ(get<float>(there), (std::vector<float>{1, 0, 0, 0, 5}));
}

TEST_F(CudaRuntime, NamesAProgramWithoutAnImage) {
  const int argument = 0;
  try {
    runtime_->launch({.name = "nobody"}, {.kernel = "sinew_none", .argument = &argument}, stream_);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    EXPECT_THAT(e.what(), HasSubstr("this build has no device kernels of nobody"));
  }
}

TEST_F(CudaRuntime, UnloadsItsProgramsAtItsEnd) {
  auto* const images = driver_function<cuda::Result()>("fake_cuda_images");
  if (images == nullptr) GTEST_SKIP() << "a real driver does not tell how many images are loaded";
  const cuda::Result before = images();
  {
    cuda::Runtime runtime;
    const StreamRef stream = runtime.make_stream(0);
    const int image = 0, argument = 0;
    // The image is loaded before the kernel is looked for.
    EXPECT_THROW(runtime.launch({"a test", &image}, {.kernel = "sinew_none", .argument = &argument}, stream), Error);
    EXPECT_EQ(images(), before + 1);
    if (cuda::kernels_available().ok) {
      const Buffer number = runtime.allocate(4, {MemoryKind::Device, 0});
      runtime.reduce_async(number, number, number, ReduceOp::Sum, DType::F32, stream);
      sinew::drain(runtime, stream);
      EXPECT_EQ(images(), before + 2);
      runtime.release(number);
    }
    runtime.release(stream);
  }
  EXPECT_EQ(images(), before);
}

TEST_F(CudaRuntime, CopiesRows) {
  std::vector<std::uint32_t> values(24);
  std::iota(values.begin(), values.end(), 0U);
  const Buffer from = put(values);
  const Buffer to = put(std::vector<std::uint32_t>(24, 99));
  // Three rows of two elements, eight apart, to three apart.
  runtime_->copy_rows_async(to, 12, from.part(4, from.bytes - 4), 32, 8, 3, stream_);
  const auto got = get<std::uint32_t>(to);
  EXPECT_THAT(std::vector(got.begin(), got.begin() + 9), testing::ElementsAre(1, 2, 99, 9, 10, 99, 17, 18, 99));
}

/// The driver copies no rows that are 2 GiB apart or more.
TEST_F(CudaRuntime, CopiesRowsThatLieFarApart) {
  constexpr std::size_t kPitch = std::size_t{1} << 31;
  const Buffer from = make(kPitch + 8);
  const Buffer ones = put(std::vector<std::uint32_t>{1, 2});
  const Buffer others = put(std::vector<std::uint32_t>{3, 4});
  runtime_->copy_async(from.part(0, 8), ones, stream_);
  runtime_->copy_async(from.part(kPitch, 8), others, stream_);
  const Buffer to = put(std::vector<std::uint32_t>(4, 99));
  runtime_->copy_rows_async(to, 8, from, kPitch, 8, 2, stream_);
  EXPECT_THAT(get<std::uint32_t>(to), testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(CudaRuntime, CombinesWhatSeveralHold_AndScales) {
  if (const Availability can = cuda::kernels_available(); !can.ok) GTEST_SKIP() << can.reason;
  constexpr std::size_t kCount = 1003;
  std::vector<Buffer> operands;
  std::vector<const void*> sources;
  for (int r = 0; r < 5; ++r) {
    operands.push_back(put(std::vector<float>(kCount, static_cast<float>(r + 1))));
    sources.push_back(operands.back().data);
  }
  const Buffer to = make(kCount * 4);
  runtime_->combine_async(to, sources, ReduceOp::Sum, DType::F32, 0.2, stream_);
  EXPECT_EQ(get<float>(to), std::vector<float>(kCount, 3.0F));
  runtime_->reduce_async(to, operands[1], operands[4], ReduceOp::Product, DType::F32, stream_);
  EXPECT_EQ(get<float>(to), std::vector<float>(kCount, 10.0F));
  std::vector<const void*> many(17, sources[0]);
  EXPECT_THROW(runtime_->combine_async(to, many, ReduceOp::Sum, DType::F32, 1, stream_), Error);
  EXPECT_THROW(runtime_->reduce_async(to, to, to, ReduceOp::BitAnd, DType::F32, stream_), Error);
}

TEST_F(CudaRuntime, GivesEventsAgain_AfterTheyWereReleased) {
  const auto first = runtime_->record(stream_);
  runtime_->release(first);
  const auto second = runtime_->record(stream_);
  EXPECT_EQ(first, second);
  const StreamRef other = runtime_->make_stream(runtime_->device_count() - 1);
  runtime_->wait(other, second);
  const auto after = runtime_->record(other);
  while (!runtime_->query(after)) std::this_thread::yield();
  EXPECT_TRUE(runtime_->query(second));
  runtime_->release(second);
  runtime_->release(after);
  runtime_->release(other);
}

/// As a progress thread records, while the user's orders streams behind calls and gives their events back.
TEST_F(CudaRuntime, TakesEventsBackFromAnotherThread) {
  std::vector<DeviceRuntime::Event> events;
  std::mutex mutex;
  std::atomic<bool> over = false;
  std::thread user([&] {
    const StreamRef mine = runtime_->make_stream(0);
    for (bool last = false; !last;) {
      last = over;
      std::unique_lock lock(mutex);
      const std::vector<DeviceRuntime::Event> taken = std::exchange(events, {});
      lock.unlock();
      for (const auto event : taken) {
        runtime_->wait(mine, event);
        runtime_->release(event);
      }
    }
    runtime_->release(mine);
  });
  for (int i = 0; i < 1000; ++i) {
    const auto event = runtime_->record(stream_);
    const std::scoped_lock lock(mutex);
    events.push_back(event);
  }
  over = true;
  user.join();
}

TEST_F(CudaRuntime, ThrowsTheDriversWords) {
  try {
    static_cast<void>(runtime_->allocate(std::size_t{1} << 60, {MemoryKind::Device, 0}));
    FAIL() << "that much memory was given";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::System);
    EXPECT_THAT(e.what(), HasSubstr("cuMemAlloc: out of memory"));
  }
  EXPECT_THROW(static_cast<void>(runtime_->allocate(8, {MemoryKind::Device, 99})), Error);
}

TEST_F(CudaRuntime, CarriesCollectives_OfAWorldThatFindsItByItself) {
  std::optional<ExpectLog> shared;
  if (runtime_->device_count() < 2) shared.emplace(log::Level::Warning, "they take turns");
  on_threads(2, only("shm"), [](World& world) {
    cuda::Runtime mine;
    const OnDevice where{mine, mine.make_stream(world.rank() % mine.device_count())};
    std::uint32_t salt = 0;
    for (const CollectiveCase& c : pairwise_cases(2, 64 << 10)) {
      require(run_case(world.communicator(), c, ++salt, &where) == 0, c.to_string());
    }
    mine.release(where.stream);
  });
}

}  // namespace
}  // namespace sinew::test

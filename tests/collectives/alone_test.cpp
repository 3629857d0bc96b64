#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

#include "fakes/fake_device.hpp"
#include "support/collective_case.hpp"
#include "support/fake_devices.hpp"
#include "support/on_device.hpp"
#include "support/worlds.hpp"

// Device memory in a group of one rank. That every collective is right there staging_test and staging_parts_test say.
namespace sinew::test {
namespace {

using Values = std::vector<std::int32_t>;

Values counting(std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

CollectiveDesc all_reduce_of(ReduceOp op, Place place) {
  return {.collective = Collective::AllReduce, .dtype = DType::F32, .op = op, .place = place, .count = 4 << 20};
}

TEST(Alone, CopiesOnTheDevice_WhatItDoesNotChange) {
  on_devices(1, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    const Place device{MemoryKind::Device, where.stream.device};
    const auto takes = [&](ReduceOp op, Place place, const std::string& way) {
      const std::string text = all.plan(all_reduce_of(op, place)).explain();
      require(text.find("takes  " + way) != std::string::npos, text);
    };
    takes(ReduceOp::Sum, device, "copy over device");
    takes(ReduceOp::Average, device, "copy over device");
    takes(ReduceOp::PreMulSum, device, "staged over ");
    const std::string on_host = all.plan(all_reduce_of(ReduceOp::Sum, Place{})).explain();
    require(on_host.find("the buffers are host memory") != std::string::npos, on_host);
  });
}

TEST(Alone, KeepsToTheOrderOfStreams) {
  on_devices(1, "shm", [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Values nothing(1000), late = counting(1000), later(1000, 4);
    const Buffer in = write(where, nothing), out = write(where, nothing);
    auto open = std::make_shared<std::atomic<bool>>(false);
    fake::enqueue(where.stream.stream, [open] { return open->load(); });
    where.runtime.copy_async(in, Buffer{reinterpret_cast<std::byte*>(late.data()), in.bytes}, where.stream);
    Work w = all.all_reduce(in, out, DType::I32, ReduceOp::Sum, {.after = where.stream});
    require(w.wait(Deadline::after(std::chrono::milliseconds(20))).code() == Code::Pending, "it must not begin");
    w.order(where.stream);
    where.runtime.copy_async(in, Buffer{reinterpret_cast<std::byte*>(later.data()), in.bytes}, where.stream);
    open->store(true);
    require(read<std::int32_t>(where, out) == late, "what the stream had written before the call");
    w.get();
    for (const Buffer b : {in, out}) where.runtime.release(b);
  });
}

TEST(Alone, ServesGroupsOfOne_ThatASplitMakes) {
  on_devices(3, "shm", [](World& world, const OnDevice& where) {
    Communicator mine = world.communicator().split(world.rank());
    Values values = counting(1000), nothing(1000);
    const Buffer in = write(where, values), out = write(where, nothing);
    for (int call = 0; call < 3; ++call) mine.all_gather(in, out, DType::I32, {.after = where.stream}).get();
    require(read<std::int32_t>(where, out) == values, "this rank's own data");
    world.communicator().all_reduce(out, out, DType::I32, ReduceOp::Sum, {.after = where.stream}).get();
    require(read<std::int32_t>(where, out)[9] == 30, "of all ranks");
    for (const Buffer b : {in, out}) where.runtime.release(b);
  });
}

TEST(Alone, TakesWhatItGivesItself_WhereItsCountsSay) {
  on_devices(1, "shm", [](World& world, const OnDevice& where) {
    Values values = counting(100), nothing(100);
    const Buffer in = write(where, values), out = write(where, nothing);
    const std::vector<std::uint64_t> count{7}, from{20}, to{3};
    world.communicator().all_to_all_v(in, out, DType::I32, {count, from}, {count, to}, {.after = where.stream}).get();
    const Values got = read<std::int32_t>(where, out);
    for (int i = 0; i < 100; ++i) {
      const int expected = i >= 3 && i < 10 ? i + 18 : 0;
      require(got[static_cast<std::size_t>(i)] == expected, "element " + std::to_string(i));
    }
    for (const Buffer b : {in, out}) where.runtime.release(b);
  });
}

TEST(Alone, EndsWithTheDevicesReason) {
  on_devices(1, "shm", [](World& world, const OnDevice& where) {
    Values values = counting(1000);
    const Buffer in = write(where, values), out = write(where, values);
    read<std::int32_t>(where, out);  // nothing is in flight
    static_cast<fake::Device&>(where.runtime).fail_next("an illegal address was met");
    const Status end = world.communicator().all_reduce(in, out, DType::I32).wait();
    require(end.code() == Code::System, std::string(name_of(end.code())));
    require(std::string(end.message()).find("an illegal address was met") != std::string::npos,
            std::string(end.message()));
    for (const Buffer b : {in, out}) where.runtime.release(b);
  });
}

}  // namespace
}  // namespace sinew::test

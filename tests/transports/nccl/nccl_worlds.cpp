#include "transports/nccl/nccl_worlds.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fakes/fake_device.hpp"
#include "fakes/fake_nccl.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {

WorldOptions with_nccl(Duration timeout) {
  WorldOptions options = only("shm,nccl");
  options.config.nccl_library = FAKE_NCCL;
  options.config.timeout = timeout;
  return options;
}

void on_nccl(int ranks, const NcclBody& body, const WorldOptions& options, Devices devices) {
  const int count = devices.count > 0 ? devices.count : ranks;
  const auto body_on = [&](const Exchange& exchange) {
    fake::Device device(count, devices.compute_capability);
    WorldOptions mine = options;
    mine.device_runtime = &device;
    World world = World::create(exchange, std::move(mine));
    const OnDevice where{device, device.make_stream(world.rank() % count)};
    body(world, where);
    device.release(where.stream);
  };
  run_as_threads(ranks, body_on);
  fake_nccl_reset();
  EXPECT_EQ(fake_nccl_live(), 0);
  EXPECT_EQ(fake_nccl_operators(), 0);
  EXPECT_EQ(fake_nccl_registrations(), 0);
  EXPECT_EQ(fake_nccl_allocations(), 0);
  EXPECT_STREQ(fake_nccl_misuse(), nullptr);
}

TransportStatus status_of(const World& world, const std::string& transport) {
  const std::vector<TransportStatus> all = world.transports();
  return *std::ranges::find(all, transport, &TransportStatus::name);
}

void require_sum(Communicator& among, const OnDevice& where, std::size_t count) {
  std::vector<std::int32_t> data(count, among.rank() + 1);
  const Buffer b = write(where, data);
  among.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream}).get();
  const int sum = among.size() * (among.size() + 1) / 2;
  require(read<std::int32_t>(where, b) == std::vector<std::int32_t>(count, sum), "the sum over all ranks");
  where.runtime.release(b);
}

void inject_on(int rank, FakeNcclFault fault, Communicator& other) {
  other.barrier().get();
  if (other.rank() == rank) fake_nccl_inject(fault, rank, 1);
}

std::string text_of(const Status& status) { return fmt::format("{}: {}", name_of(status.code()), status.message()); }

}  // namespace sinew::test

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "fakes/fake_device.hpp"
#include "fakes/fake_graph.hpp"
#include "fakes/fake_nccl.hpp"
#include "support/log_guard.hpp"
#include "support/on_device.hpp"
#include "support/worlds.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::test {
namespace {

using Numbers = std::vector<std::int32_t>;

fake::Device& device_of(const OnDevice& where) { return static_cast<fake::Device&>(where.runtime); }

Buffer make(const OnDevice& where, std::size_t count) {
  return where.runtime.allocate(count * sizeof(std::int32_t), {MemoryKind::Device, where.stream.device});
}

/// Puts the numbers into memory that exists. They stay until the stream has come there.
void set(const OnDevice& where, Buffer to, Numbers& numbers) {
  where.runtime.copy_async(to, Buffer{reinterpret_cast<std::byte*>(numbers.data()), to.bytes}, where.stream);
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "was taken";
}

/// Two all_reduces and a reduce_scatter on two communicators, which have run once outside of any capture.
TEST(NcclCapture, AStepIsReplayed_WithChangedInputs) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    constexpr std::size_t kCount = 3000;
    Communicator& all = world.communicator();
    Communicator second = all.split(0, all.rank());
    for (Communicator* c : {&all, &second}) require_sum(*c, where);
    const Buffer a = make(where, kCount), b = make(where, kCount), in = make(where, 2 * kCount),
                 out = make(where, kCount);
    device_of(where).begin_capture(where.stream);
    const CallOptions options{.after = where.stream};
    Work works[] = {all.all_reduce(a, a, DType::I32, ReduceOp::Sum, options),
                    second.all_reduce(b, b, DType::I32, ReduceOp::Sum, options),
                    all.reduce_scatter(in, out, DType::I32, ReduceOp::Sum, options)};
    for (Work& w : works) {
      require(w.done(), "a captured call has ended when it returns");
      w.get();
    }
    const auto step = device_of(where).end_capture(where.stream);
    for (int turn = 0; turn < 10; ++turn) {
      Numbers mine(kCount, world.rank() + turn), other(kCount, 10 * turn + world.rank()), blocks(2 * kCount, turn);
      std::fill(blocks.begin() + kCount, blocks.end(), 100 + world.rank());
      set(where, a, mine);
      set(where, b, other);
      set(where, in, blocks);
      device_of(where).replay(*step, where.stream);
      require(read<std::int32_t>(where, a) == Numbers(kCount, 2 * turn + 1), "the first sum");
      require(read<std::int32_t>(where, b) == Numbers(kCount, 20 * turn + 1), "the second communicator's sum");
      require(read<std::int32_t>(where, out) == Numbers(kCount, world.rank() == 0 ? 2 * turn : 201), "the block");
    }
    require_sum(all, where);
    all.barrier().get();  // no rank ends its communicator while another one replays
    for (const Buffer& memory : {a, b, in, out}) where.runtime.release(memory);
  });
}

/// The very first call of a communicator, which NCCL takes only after it has met all ranks.
TEST(NcclCapture, TheFirstCallOfACommunicatorMayBeCaptured) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Numbers ones(500, 1);
    const Buffer b = write(where, ones);
    read<std::int32_t>(where, b);
    device_of(where).begin_capture(where.stream);
    world.communicator().all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream}).get();
    const auto graph = device_of(where).end_capture(where.stream);
    require(read<std::int32_t>(where, b) == Numbers(500, 1), "nothing has run yet");
    device_of(where).replay(*graph, where.stream);
    require(read<std::int32_t>(where, b) == Numbers(500, 3), "the sum");
    world.communicator().barrier().get();
    where.runtime.release(b);
  });
}

/// A branch of the graph calls on a second communicator. The call that was made after it on the first one waits for it.
TEST(NcclCapture, CommunicatorsKeepTheirOrder_InBranchesOfOneGraph) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator second = all.split(0, all.rank());
    for (Communicator* c : {&all, &second}) require_sum(*c, where);
    const Buffer a = make(where, 1000), b = make(where, 1000);
    const StreamRef branch = where.runtime.make_stream(where.stream.device);
    device_of(where).begin_capture(where.stream);
    const DeviceRuntime::Event fork = where.runtime.record(where.stream);
    where.runtime.wait(branch, fork);
    where.runtime.release(fork);
    Work on_branch = second.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = branch});
    Work on_trunk = all.all_reduce(a, a, DType::I32, ReduceOp::Sum, {.after = where.stream});
    on_branch.order(where.stream);
    const auto graph = device_of(where).end_capture(where.stream);
    const auto is_work_of = [](std::size_t lane) {
      return [lane](const auto& n) { return n.kind == fake::Graph::Node::Kind::Work && n.lane == lane; };
    };
    const auto is_joint = [](const auto& n) { return n.kind == fake::Graph::Node::Kind::Wait && n.lane == 0; };
    const auto after_branch = std::ranges::find_if(graph->nodes, is_work_of(1));
    const auto joint = std::find_if(after_branch, graph->nodes.end(), is_joint);
    require(joint < std::ranges::find_if(graph->nodes, is_work_of(0)), "the trunk's call waits for the branch's");
    for (int turn = 0; turn < 5; ++turn) {
      Numbers ones(1000, 1 + turn), twos(1000, 2 + turn);
      set(where, a, ones);
      set(where, b, twos);
      device_of(where).replay(*graph, where.stream);
      require(read<std::int32_t>(where, a) == Numbers(1000, 2 + 2 * turn), "on the trunk");
      require(read<std::int32_t>(where, b) == Numbers(1000, 4 + 2 * turn), "on the branch");
    }
    all.barrier().get();
    where.runtime.release(branch);
    for (const Buffer& memory : {a, b}) where.runtime.release(memory);
  });
}

/// all_to_all in place reads a copy. Later calls, and calls of other captures, must not write that copy's memory.
TEST(NcclCapture, KeepsScratchMemory_ForItsReplays) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    const Buffer b = make(where, 2000);
    const CallOptions options{.after = where.stream};
    all.all_to_all(b, b, DType::I32, options).get();
    const std::size_t before = all.memory_bytes();
    device_of(where).begin_capture(where.stream);
    all.all_to_all(b, b, DType::I32, options).get();
    const auto graph = device_of(where).end_capture(where.stream);
    require(all.memory_bytes() == before + b.bytes, "the scratch of the capture is memory of its own");
    for (int turn = 0; turn < 3; ++turn) {
      Numbers mine(2000, 10 * turn + world.rank());
      set(where, b, mine);
      device_of(where).replay(*graph, where.stream);
      Numbers expected(2000, 10 * turn);
      std::fill(expected.begin() + 1000, expected.end(), 10 * turn + 1);
      require(read<std::int32_t>(where, b) == expected, "a block of each rank");
      all.all_to_all(b, b, DType::I32, options).get();
    }
    all.barrier().get();
    where.runtime.release(b);
  });
}

TEST(NcclCapture, ARankThatDoesNotCaptureIsTold) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    Communicator other = all.split(0, all.rank());
    for (Communicator* c : {&all, &other}) require_sum(*c, where);
    Numbers ones(100, 1);
    const Buffer b = write(where, ones);
    read<std::int32_t>(where, b);
    if (world.rank() == 0) device_of(where).begin_capture(where.stream);
    Work work = all.all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
    if (world.rank() == 0) {
      work.get();
      require(device_of(where).end_capture(where.stream) != nullptr, "a graph");
    } else {
      const Status end = work.wait(Deadline::after(std::chrono::seconds(50)));
      require(end.code() == Code::Mismatch, text_of(end));
      require_part(std::string(end.message()), "all_reduce(i32, sum, count 100, device memory, captured)");
    }
    other.barrier().get();
    read<std::int32_t>(where, b);
    where.runtime.release(b);
  });
}

TEST(NcclCapture, ABrokenCaptureLeavesTheCommunicatorUsable) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    require_sum(all, where);
    const Buffer b = make(where, 100);
    const CallOptions options{.after = where.stream};
    device_of(where).begin_capture(where.stream);
    all.all_reduce(b, b, DType::I32, ReduceOp::Sum, options).get();
    device_of(where).break_capture(where.stream);
    const auto call = [&] { all.all_reduce(b, b, DType::I32, ReduceOp::Sum, options).get(); };
    require_part(refusal_of(call), "the capture is broken");
    require_part(refusal_of([&] { device_of(where).end_capture(where.stream); }), "a call that no capture may have");
    require_sum(all, where);
    device_of(where).begin_capture(where.stream);
    all.all_reduce(b, b, DType::I32, ReduceOp::Sum, options).get();
    require(device_of(where).end_capture(where.stream)->broken.empty(), "the next capture");
    require_sum(all, where);
    where.runtime.release(b);
  });
}

TEST(NcclCapture, AStreamOutsideOfTheCaptureCannotWaitForItsCalls) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    const Buffer b = make(where, 100);
    const StreamRef outside = where.runtime.make_stream(where.stream.device);
    device_of(where).begin_capture(where.stream);
    Work work = world.communicator().all_reduce(b, b, DType::I32, ReduceOp::Sum, {.after = where.stream});
    require_part(refusal_of([&] { work.order(outside); }), "the stream is not part of that capture");
    require(where.runtime.capture_of(outside) == 0, "it was not drawn in");
    work.order(where.stream);
    device_of(where).end_capture(where.stream);
    world.communicator().barrier().get();
    where.runtime.release(outside);
    where.runtime.release(b);
  });
}

/// A plan that was made for calls that run at once, and a communicator that was split in the middle of the capture.
TEST(NcclCapture, TakesCallsOfAPlan_AndOfANewCommunicator) {
  on_nccl(3, [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    const Buffer a = make(where, 700), b = make(where, 700);
    const CallOptions options{.after = where.stream};
    const Plan plan = all.plan({.collective = Collective::AllReduce,
                                .dtype = DType::I32,
                                .op = ReduceOp::Sum,
                                .place = {MemoryKind::Device, where.stream.device},
                                .count = 700});
    device_of(where).begin_capture(where.stream);
    Work planned = all.run(plan, a, a, options);
    Communicator part = all.split(world.rank() == 2 ? 1 : 0, world.rank());
    Work on_part = part.all_reduce(b, b, DType::I32, ReduceOp::Sum, options);
    for (Work* w : {&planned, &on_part}) {
      require(w->captured(), "a work of the capture says so");
      w->get();
    }
    const auto graph = device_of(where).end_capture(where.stream);
    for (int turn = 0; turn < 3; ++turn) {
      Numbers mine(700, turn + world.rank()), other(700, 10 * turn + world.rank());
      set(where, a, mine);
      set(where, b, other);
      device_of(where).replay(*graph, where.stream);
      require(read<std::int32_t>(where, a) == Numbers(700, 3 * turn + 3), "the planned call");
      const int on_both = world.rank() == 2 ? 10 * turn + 2 : 20 * turn + 1;
      require(read<std::int32_t>(where, b) == Numbers(700, on_both), "the call of the new communicator");
    }
    all.barrier().get();
    for (const Buffer& memory : {a, b}) where.runtime.release(memory);
  });
}

/// Nobody replays a graph after that. It is destroyed before its communicator, as NCCL asks.
TEST(NcclCapture, AnAbortEndsACommunicatorWithCapturedCalls) {
  on_nccl(2, [](World& world, const OnDevice& where) {
    Communicator doomed = world.communicator().split(0, world.rank());
    require_sum(doomed, where);
    const Buffer b = make(where, 100);
    const CallOptions options{.after = where.stream};
    device_of(where).begin_capture(where.stream);
    Work captured = doomed.all_reduce(b, b, DType::I32, ReduceOp::Sum, options);
    world.communicator().barrier().get();
    if (world.rank() == 0) doomed.abort("enough");
    const auto call = [&] {
      while (true) doomed.all_reduce(b, b, DType::I32, ReduceOp::Sum, options).get();
    };
    require_part(refusal_of(call), "enough");
    captured.get();  // it was part of the capture before
    device_of(where).end_capture(where.stream);
    require_sum(world.communicator(), where);
    where.runtime.release(b);
  });
}

/// A captured call ends before it runs, so its time says nothing.
TEST(NcclCapture, StatisticsLeaveCapturedCallsOut) {
  WorldOptions options = with_nccl();
  options.config.time_calls = true;
  const auto body = [](World& world, const OnDevice& where) {
    Communicator& all = world.communicator();
    const Buffer b = make(where, 100);
    const CallOptions on_stream{.after = where.stream};
    all.all_reduce(b, b, DType::I32, ReduceOp::Sum, on_stream).get();
    device_of(where).begin_capture(where.stream);
    for (int i = 0; i < 5; ++i) all.all_reduce(b, b, DType::I32, ReduceOp::Sum, on_stream).get();
    const auto graph = device_of(where).end_capture(where.stream);
    device_of(where).replay(*graph, where.stream);
    read<std::int32_t>(where, b);
    std::uint64_t calls = 0;
    for (const CallStats& c : all.stats().calls) {
      if (c.collective == Collective::AllReduce) calls += c.calls;
    }
    require(calls == 1, "the call outside of the capture");
    where.runtime.release(b);
  };
  on_nccl(2, body, options);
}

TEST(NcclCapture, ARankAloneCopiesWithinTheGraph) {
  on_nccl(1, [](World& world, const OnDevice& where) {
    const Buffer in = make(where, 100), out = make(where, 100);
    device_of(where).begin_capture(where.stream);
    world.communicator().all_reduce(in, out, DType::I32, ReduceOp::Sum, {.after = where.stream}).get();
    const auto graph = device_of(where).end_capture(where.stream);
    for (int turn = 0; turn < 3; ++turn) {
      Numbers mine(100, turn);
      set(where, in, mine);
      device_of(where).replay(*graph, where.stream);
      require(read<std::int32_t>(where, out) == mine, "the copy");
    }
    where.runtime.release(in);
    where.runtime.release(out);
  });
}

}  // namespace
}  // namespace sinew::test

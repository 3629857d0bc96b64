#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/ranks.hpp"
#include "support/worlds.hpp"

// Callers' mistakes: each is one error, and nothing happens to anybody else.
namespace sinew::test {
namespace {

using testing::Each;
using testing::HasSubstr;

TEST(Arguments, AreRefused_WhenTheyCannotBeMemory) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    const Buffer null{nullptr, 8};
    EXPECT_EQ(complaint([&] { all.all_reduce(null, null, DType::F32).get(); }),
              "all_reduce: in is null, expected 8 bytes");
    EXPECT_EQ(complaint([&] { all.broadcast(null, DType::F32, 0).get(); }),
              "broadcast: data is null, expected 8 bytes");
    EXPECT_EQ(complaint([&] { all.send(null, 1 - all.rank()).get(); }), "send: from is null, expected 8 bytes");
    EXPECT_EQ(complaint([&] { all.recv(null, 1 - all.rank()).get(); }), "recv: to is null, expected 8 bytes");
    std::array<std::byte, 16> memory{};
    const Buffer huge{memory.data(), std::size_t{1} << 63};
    EXPECT_THAT(complaint([&] {
                  all.all_gather(huge, {memory.data(), 0}, DType::U8).get();
                }),
                HasSubstr("in has 9223372036854775808 bytes"));
    const Buffer half{memory.data(), std::size_t{1} << 62};
    EXPECT_THAT(complaint([&] {
                  all.all_gather(half, {memory.data(), 0}, DType::U8).get();
                }),
                HasSubstr("2 blocks of 4611686018427387904 elements of u8 are more than"));
    all.barrier().get();
  });
}

TEST(Arguments, AreRefused_WhenTheyAreNoEnumerators) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    std::array<std::byte, 192> m{};
    EXPECT_THAT(complaint([&] {
                  all.all_reduce({m.data(), 192}, {m.data(), 192}, static_cast<DType>(77)).get();
                }),
                HasSubstr("dtype is 77"));
    EXPECT_THAT(complaint([&] {
                  all.all_reduce({m.data(), 192}, {m.data(), 192}, DType::F32, static_cast<ReduceOp>(99)).get();
                }),
                HasSubstr("operator is 99"));
    all.barrier().get();
  });
}

TEST(Arguments, AreRefused_WhenAUsersOperatorIsForOtherElements) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    std::vector<float> data(100);
    Reducer mine;
    const auto said = [&] { return complaint([&] { all.all_reduce(data, ReduceOp::User, {.user = &mine}).get(); }); };
    EXPECT_EQ(said(), "all_reduce: CallOptions::user has no function");
    mine.fn = [](void*, const void*, const void*, std::size_t, const void*) noexcept {};
    EXPECT_EQ(said(), "all_reduce: CallOptions::user is for elements of 1 bytes, but those of f32 have 4");
    all.barrier().get();
  });
}

TEST(Arguments, AreRefused_WhenAPlanIsForOtherElements) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    const Plan plan = all.plan({.collective = Collective::AllReduce, .dtype = DType::F32, .count = 4});
    std::vector<std::int32_t> integers(4);
    std::vector<float> floats(4, 1);
    EXPECT_THAT(complaint([&] { all.run(plan, integers, integers).get(); }),
                HasSubstr("is for f32 and in is a range of i32"));
    EXPECT_THAT(complaint([&] { all.run(plan, floats, integers).get(); }),
                HasSubstr("is for f32 and out is a range of i32"));
    std::vector<std::byte> bytes(16);
    all.run(plan, bytes, bytes).get();
    all.run(plan, floats, floats).get();
    EXPECT_EQ(floats, std::vector<float>(4, 2));
    EXPECT_THAT(complaint([] { (void)Plan().chosen(); }), HasSubstr("this plan is empty"));
    EXPECT_THAT(complaint([] { (void)Plan().explain(); }), HasSubstr("this plan is empty"));
  });
}

TEST(Arguments, MayNotBeWritten_WhereARangeIsConst) {
  EXPECT_TRUE(WritableElements<std::vector<float>&>);
  EXPECT_FALSE(WritableElements<const std::vector<float>&>);
  EXPECT_FALSE(WritableElements<std::span<const float>>);
  EXPECT_TRUE(ElementRange<std::span<const float>>);
}

TEST(Arguments, AreRefused_WhenAMessageGoesWhereAnotherComes) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    std::array<std::byte, 16> m{};
    const int other = 1 - all.rank();
    EXPECT_EQ(complaint([&] {
                all.sendrecv({m.data(), 10}, other, {m.data() + 9, 7}, other).get();
              }),
              "sendrecv: from and to overlap");
    all.sendrecv({m.data(), 7}, other, {m.data() + 9, 7}, other).get();
    all.barrier().get();
  });
}

TEST(Arguments, AreRefused_WhenTheCommunicatorIsEmpty) {
  on_threads(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    std::array<float, 2> data{};
    Communicator none = all.split(-1);
    for (const auto& call : std::initializer_list<std::function<void()>>{
             [&] { none.all_reduce(data).get(); }, [&] { none.barrier().get(); },
             [&] { none.broadcast(data, 0).get(); }, [&] { none.send(data, 0).get(); }, [&] { (void)none.split(0); },
             [&] { none.abort("x"); }, [&] { (void)none.verdict(); }}) {
      EXPECT_THAT(complaint(call), HasSubstr("this communicator is empty"));
    }
    EXPECT_EQ(none.size(), 0);
    all.barrier().get();
  });
}

TEST(Arguments, AreRefused_WhenTheWorldWasMovedFrom) {
  World world = World::create(exchange_alone(), only("shm"));
  const World taken = std::move(world);
  EXPECT_THAT(complaint([&] { (void)world.rank(); }), HasSubstr("moved from"));
  EXPECT_THAT(complaint([&] { (void)world.communicator(); }), HasSubstr("moved from"));
  EXPECT_EQ(taken.rank(), 0);
}

TEST(Arguments, AreRefused_WhenMoreMemoryIsAskedThanThereCanBe) {
  World world = World::create(exchange_alone(), only("shm"));
  for (const bool huge : {false, true}) {
    EXPECT_THAT(complaint([&] { (void)world.allocate(SIZE_MAX, huge); }),
                HasSubstr("allocate: 18446744073709551615 bytes"));
    EXPECT_THROW((void)world.allocate(PTRDIFF_MAX, huge), Error);
    EXPECT_THROW((void)world.allocate(std::size_t{1} << 60, huge), Error);
    EXPECT_EQ(world.allocate(100, huge).buffer().bytes, 100U);
  }
}

TEST(World, AllocatesOrdinaryMemory_WhereNoTransportHasAnyOther) {
  on_threads(2, only("inproc"), [](World& world) {
    const Memory memory = world.allocate(4000);
    EXPECT_THAT(memory.known_as(), HasSubstr("ordinary memory: no open transport"));
    EXPECT_EQ(memory.buffer().bytes, 4000U);
    EXPECT_THAT(memory.as<float>(), testing::Each(0.0F));
    std::ranges::fill(memory.as<float>(), 1.0F);
    world.communicator().all_reduce(memory.as<float>()).get();
    EXPECT_EQ(memory.as<float>()[999], 2.0F);
  });
}

TEST(World, LeavesItsMemoryToWhoHoldsIt) {
  run_as_threads(2, [](const Exchange& exchange) {
    World world = World::create(exchange, only("shm"));
    Memory memory;
    {
      World another = World::create(exchange, only("shm"));
      memory = another.allocate(1 << 20);
      std::ranges::fill(memory.as<float>(), 1.0F);
    }
    EXPECT_EQ(memory.known_as(), "shared memory of shm");
    world.communicator().all_reduce(memory.as<float>()).get();  // memory like any other to this World
    EXPECT_THAT(memory.as<float>(), testing::Each(2.0F));
  });
}

/// Tags have 8 bits of the generation, so those of both Worlds are equal. Their endpoints are not.
TEST(World, OfAGenerationThatWraps_MeetsNoMessageOfTheOldOne) {
  for (const char* const transport : transports_between_processes()) {
    run_as_threads(2, [&](const Exchange& exchange) {
      World old = World::create(exchange, only(transport));
      WorldOptions options = only(transport);
      options.measures = false;
      options.generation = 256;
      World later = World::create(exchange, options);
      std::array<int, 4> of_old{1, 1, 1, 1}, of_later{2, 2, 2, 2};
      if (exchange.rank == 0) {
        Work first = old.communicator().send(of_old, 1, 7);
        later.communicator().send(of_later, 1, 7).get();
        first.get();
      } else {
        std::array<int, 4> found{};
        later.communicator().recv(found, 0, 7).get();
        require(found == of_later, fmt::format("{}: the later World has the message of the old one", transport));
        old.communicator().recv(found, 0, 7).get();
        require(found == of_old, fmt::format("{}: the old World has another message", transport));
      }
    });
  }
}

TEST(World, IsOfNoUseToAForksChild_AndGoesOnInTheParent) {
  in_processes(2, only("shm"), [](World& world) {
    Communicator& all = world.communicator();
    all.barrier().get();
    const pid_t child = ::fork();
    if (child == 0) {
      std::array<float, 1> data{1};
      const bool refused =
          complaint([&] { all.all_reduce(data).get(); }).find("is a fork of the one") != std::string::npos &&
          complaint([&] { world.abort("child"); }).find("is a fork of the one") != std::string::npos;
      ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    std::array<float, 1> data{1};
    all.all_reduce(data).get();
    EXPECT_EQ(data[0], 2);
  });
}

TEST(Arguments, OfPlansAreRefused_WhenNoCallCanHaveThem) {
  on_threads(2, only("shm"), [](World& world) {
    const Communicator& all = world.communicator();
    CollectiveDesc desc{.collective = Collective::Broadcast, .dtype = DType::F32, .root = 5, .count = 4};
    EXPECT_EQ(complaint([&] { (void)all.plan(desc); }), "broadcast: root is 5, expected 0 to 1");
    desc = {.collective = Collective::AllReduce, .dtype = DType::F32, .op = ReduceOp::User, .count = 4};
    EXPECT_EQ(complaint([&] { (void)all.plan(desc); }),
              "all_reduce: operator user has no function: expected CallOptions::user, in C the member reduce");
    desc = {.collective = Collective::AllReduce, .dtype = static_cast<DType>(99), .count = 4};
    EXPECT_THAT(complaint([&] { (void)all.plan(desc); }), HasSubstr("all_reduce: dtype is 99"));
  });
}

TEST(Arguments, AreRefused_WhenDisplacementsAreTooFew_InPlace) {
  on_threads(3, only("shm"), [](World& world) {
    const std::vector<std::uint64_t> counts(3, 2);
    const std::vector<std::uint64_t> one(1, 0);
    std::vector<std::int32_t> data(6);
    EXPECT_EQ(complaint([&] {
                world.communicator().all_to_all_v(data, data, {counts, one}, {counts}).get();
              }),
              "all_to_all_v: the parts of in have 1 displacements, expected 3: one per rank");
  });
}

TEST(Work, EndsItsCommunicator_WhenGetRunsOutOfTime) {
  WorldOptions options = only("shm");
  options.config.timeout = std::chrono::milliseconds(700);
  on_threads(2, options, [](World& world) {
    {
      Communicator part = world.communicator().split(0);
      if (part.rank() == 0) {
        std::vector<float> data(1000, 1);
        try {
          part.all_reduce(data).get();
          ADD_FAILURE() << "no error";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::Timeout) << e.what();
          EXPECT_THAT(e.what(), HasSubstr("deadline passed"));
        }
        EXPECT_EQ(part.barrier().wait().code(), Code::Timeout);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        std::vector<float> data(1000, 1);
        const Code code = part.all_reduce(data).wait().code();
        if (code == Code::Ok) {  // rank 0's part had come before its deadline
          EXPECT_THAT(data, Each(2.0F));
        } else {
          EXPECT_EQ(code, Code::Timeout);
        }
        EXPECT_EQ(part.barrier().wait().code(), Code::Timeout);
      }
    }
    while (world.communicator().barrier().wait(Deadline::after(std::chrono::seconds(10))).code() == Code::Pending) {
    }
  });
}

TEST(Work, MayOutliveItsWorld) {
  std::vector<Work> works;
  std::vector<float> data(1000, 1);
  {
    World world = World::create(exchange_alone());
    for (int i = 0; i < 100; ++i) works.push_back(world.communicator().all_reduce(data));
  }
  for (Work& w : works) {
    EXPECT_TRUE(w.done());
    EXPECT_TRUE(w.wait().ok());
    w.get();
  }
}

TEST(Arguments, AreRefused_WhenAnExchangeIsNone) {
  EXPECT_EQ(complaint([] {
              World::create(Exchange{0, 2, nullptr});
            }),
            "exchange.all_gather is empty, expected a function");
  const auto one = [](const Bytes& mine) { return std::vector<Bytes>{mine}; };
  EXPECT_EQ(complaint([&] {
              World::create(Exchange{0, 2, one});
            }),
            "exchange.all_gather returned 1 elements, expected 2, one per rank");
}

TEST(Arguments, AreRefused_WhenARuleNamesNobody) {
  const auto with_rule = [](const char* rule) {
    return complaint([&] {
      WorldOptions options;
      options.config.tune = {rule};
      World::create(exchange_alone(), options);
    });
  };
  EXPECT_THAT(with_rule("*:0-4KiB:nope"), HasSubstr("no algorithm is called 'nope'; there are bidirectional_ring, "));
  EXPECT_THAT(with_rule("all_reduce:0-4KiB:ring@nope"), HasSubstr("no transport is called 'nope'; there are inproc, "));
  EXPECT_EQ(with_rule("all_reduce:0-4KiB:ring@shm+tcp"), "no complaint");
  EXPECT_EQ(with_rule("*:0-:*@nccl"), "no complaint");
}

TEST(Arguments, AreRefused_WhenARuleNamesAnAlgorithmOfAnotherCollective) {
  const auto with_rule = [](const char* rule) {
    return complaint([&] {
      WorldOptions options;
      options.config.tune = {rule};
      World::create(exchange_alone(), options);
    });
  };
  EXPECT_THAT(
      with_rule("all_reduce:0-:pairwise"),
      AllOf(HasSubstr("rule 'all_reduce:0-:pairwise' (SINEW_TUNE): all_reduce has no algorithm 'pairwise'; it has "),
            HasSubstr(", recursive_doubling, "), HasSubstr("the transports' own: inproc, ")));
  for (const char* rule : {"all_to_all:0-:pairwise", "*:0-:pairwise", "AllReduce:0-:ring", "all_reduce:0-:hierarchical",
                           "all_reduce:0-:*", "all_reduce:0-:nccl"}) {
    EXPECT_EQ(with_rule(rule), "no complaint") << rule;
  }
}

}  // namespace
}  // namespace sinew::test

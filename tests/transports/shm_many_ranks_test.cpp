#include <array>
#include <chrono>
#include <string>
#include <transports/shm_hosts.hpp>
#include <transports/shm_rank.hpp>

#include <gtest/gtest.h>

#include <sinew/transports/shm/offload/facts.hpp>
#include <support/ranks.hpp>

namespace sinew {
namespace {

using test::run_shm_case;
using test::ShmCase;
using test::ShmRank;

/// Ranks that are threads, as on a host with as many cores. All trees have the levels of that host.
void run_on(const std::string& machine, int ranks) {
  shm::Facts facts;
  facts.tree_from_ranks = 3;
  facts.tree_chunks_from_bytes = shm::kLinesBytes + 1;
  const Bytes encoded = encode(facts);
  const std::vector<PartsOfRanks> parts = test::parts_on(machine, ranks);
  const auto body = [&](const Exchange& world) {
    ShmRank rank(world, encoded, parts);
    int root = 0;
    for (const std::uint64_t count : {2U, 300U, 5000U}) {
      for (const Collective collective : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce,
                                          Collective::Barrier, Collective::AllGather}) {
        ShmCase c;
        c.collective = collective;
        c.count = collective == Collective::Barrier ? 0 : count;
        c.root = root;
        root = (root + 37) % ranks;
        run_shm_case(rank, c);
      }
    }
  };
  test::run_as_threads(ranks, body, std::chrono::seconds(300));
}

TEST(ShmManyRanks, GiveTheClosedForm_As128ThreadsOnAnEpyc) { run_on(test::kEpyc128, 128); }
TEST(ShmManyRanks, GiveTheClosedForm_As256ThreadsOnAXeon) { run_on(test::kXeon256, 256); }

}  // namespace
}  // namespace sinew

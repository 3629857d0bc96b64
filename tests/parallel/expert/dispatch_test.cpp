#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kWidth = 3;

/// Who goes where. A token's number counts those of all ranks.
struct Traffic {
  std::string name;
  std::int64_t experts, top_k;
  std::function<std::int64_t(int rank)> tokens;
  std::function<std::vector<std::int32_t>(std::int64_t token)> choose;  // ascending, kNoExpert behind
};

std::vector<std::int32_t> drawn(std::int64_t token, std::int64_t experts, std::int64_t top_k) {
  const KeyedRandom random(11, "choice");
  std::vector<std::int32_t> all(static_cast<std::size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(top_k); ++i)
    std::swap(all[i], all[i + random.below(static_cast<std::uint64_t>(token) * 16 + i, all.size() - i)]);
  all.resize(static_cast<std::size_t>(top_k));
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<Traffic> traffics() {
  return {
      {"even", 8, 2, [](int) { return 6; }, [](std::int64_t t) { return drawn(t, 8, 2); }},
      {"uneven", 7, 3, [](int r) { return r % 3 * 4; }, [](std::int64_t t) { return drawn(t, 7, 3); }},
      {"all_to_one", 5, 1, [](int) { return 5; }, [](std::int64_t) { return std::vector<std::int32_t>{3}; }},
      {"dropped", 4, 2, [](int r) { return 3 + r; },
       [](std::int64_t t) {
         auto chosen = drawn(t, 4, 2);
         if (t % 3 == 0) chosen[0] = kNoExpert;
         if (t % 5 == 0) chosen[1] = kNoExpert;
         return chosen;
       }},
      {"fewer_experts_than_ranks", 2, 1, [](int) { return 4; }, [](std::int64_t t) { return drawn(t, 2, 1); }},
      {"nothing", 3, 1, [](int) { return 0; }, [](std::int64_t t) { return drawn(t, 3, 1); }},
  };
}

double gate_of(std::int64_t token, std::int32_t expert) {
  return 1 / (1.5 + static_cast<double>(token) + 0.25 * static_cast<double>(expert));
}
double element_of(std::int64_t token, std::int64_t column) {
  return static_cast<double>(token * kWidth + column) * 0.37 - 5;
}
/// What an expert makes of a row.
double through(std::int32_t expert, double x) { return x * (1 + expert) + 0.5 * expert; }

std::int64_t first_token(const Traffic& traffic, int rank) {
  std::int64_t first = 0;
  for (int r = 0; r < rank; ++r) first += traffic.tokens(r);
  return first;
}

Routing<double> routing_of(const Traffic& traffic, int rank) {
  Routing<double> routing{"r", traffic.tokens(rank), traffic.top_k, {}, {}, {}};
  for (std::int64_t t = 0; t < routing.tokens; ++t) {
    const std::int64_t token = first_token(traffic, rank) + t;
    for (const std::int32_t e : traffic.choose(token)) {
      routing.experts.push_back(e);
      routing.gates.push_back(e == kNoExpert ? 0 : gate_of(token, e));
    }
  }
  return routing;
}

std::vector<double> tokens_of(const Traffic& traffic, int rank) {
  std::vector<double> x;
  for (std::int64_t t = 0; t < traffic.tokens(rank); ++t) {
    for (std::int64_t c = 0; c < kWidth; ++c) x.push_back(element_of(first_token(traffic, rank) + t, c));
  }
  return x;
}

/// Sum of gate * expert(x) over a token's experts, ascending.
std::vector<double> expected_of(const Traffic& traffic, int rank) {
  std::vector<double> out;
  for (std::int64_t t = 0; t < traffic.tokens(rank); ++t) {
    const std::int64_t token = first_token(traffic, rank) + t;
    for (std::int64_t c = 0; c < kWidth; ++c) {
      double sum = 0;
      for (const std::int32_t e : traffic.choose(token)) {
        if (e != kNoExpert) sum += gate_of(token, e) * through(e, element_of(token, c));
      }
      out.push_back(sum);
    }
  }
  return out;
}

/// `share`: of the result, where ranks share experts.
void compute(Dispatch<double>& way, const Rows& experts, const Rows& of, double share, std::vector<double>& rows) {
  for (std::int64_t e = of.first; e < of.last; ++e) {
    for (std::int64_t r = way.offsets()[static_cast<std::size_t>(e)];
         r < way.offsets()[static_cast<std::size_t>(e) + 1]; ++r) {
      for (std::int64_t c = 0; c < kWidth; ++c) {
        double& x = rows[static_cast<std::size_t>(r * kWidth + c)];
        x = share * way.gates()[static_cast<std::size_t>(r)] * through(static_cast<std::int32_t>(experts.first + e), x);
      }
    }
  }
}

struct Setting {
  DispatchKind kind;
  int ranks;
  std::int64_t chunks;
  std::vector<int> hosts;  // by rank
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const int ranks : {1, 2, 3, 4, 6}) {
    all.push_back({DispatchKind::AllGather, ranks, 1, {}});
    for (const std::int64_t chunks : {1, 2, 5}) all.push_back({DispatchKind::AllToAll, ranks, chunks, {}});
  }
  for (const auto& hosts : std::vector<std::vector<int>>{
           {0}, {0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1, 1}, {4, 4, 2, 2, 2, 7}})
    for (const std::int64_t chunks : {1, 3})
      all.push_back({DispatchKind::Hierarchical, static_cast<int>(hosts.size()), chunks, hosts});
  return all;
}

std::string text_of(const Setting& s, const Traffic& traffic) {
  return fmt::format("{}, {} ranks, {} chunks, {}", name_of(s.kind), s.ranks, s.chunks, traffic.name);
}

/// Tokens come to their experts, and sums of what these make of them back; so do numbers of gates.
TEST(Dispatch, SumsWhatExpertsMakeOfTokens) {
  for (const Setting& s : settings()) {
    for (const Traffic& traffic : traffics()) {
      test::on_threads(s.ranks, test::only("inproc"), [&](World& world) {
        const DispatchShape shape{"experts", traffic.experts, traffic.top_k, kWidth, s.chunks, Determinism::Fast};
        const auto dispatcher = make_dispatcher<double>(s.kind, {&world.communicator(), nullptr, s.hosts}, shape);
        const Routing<double> routing = routing_of(traffic, world.rank());
        const auto way = dispatcher->plan(routing);
        const std::vector<double> x = tokens_of(traffic, world.rank());
        std::vector<double> rows(static_cast<std::size_t>(way->rows() * kWidth)), out(x.size(), -1);
        for (int again = 0; again < 2; ++again) {  // a way may be gone several times
          way->start(x.data());
          for (std::size_t c = 0; c < way->chunks().size(); ++c) {
            way->receive(c, rows.data());
            compute(*way, dispatcher->experts(), way->chunks()[c], 1, rows);
            way->give_back(c, rows.data());
          }
          way->collect(out.data());
          const std::vector<double> expected = expected_of(traffic, world.rank());
          for (std::size_t i = 0; i < out.size(); ++i) {
            if (s.kind == DispatchKind::AllToAll) {
              EXPECT_EQ(out[i], expected[i]) << text_of(s, traffic);  // in the order of experts: to the bit
            } else {
              EXPECT_NEAR(out[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << text_of(s, traffic);
            }
          }
        }
        std::vector<double> doubled = way->gates(), back(routing.gates.size(), -1);
        for (double& g : doubled) g *= 2;
        way->return_gates(doubled.data(), back.data());
        for (std::size_t i = 0; i < back.size(); ++i)
          EXPECT_EQ(back[i], routing.experts[i] == kNoExpert ? 0 : 2 * routing.gates[i]) << text_of(s, traffic);
      });
    }
  }
}

/// With ranks that share experts each sees the rows of all, and gives its part of a sum.
TEST(Dispatch, SumsParts_WhereRanksShareExperts) {
  for (const DispatchKind kind : {DispatchKind::AllGather, DispatchKind::AllToAll, DispatchKind::Hierarchical}) {
    for (const auto& [spread, sharing] : {std::pair(1, 2), {2, 2}, {3, 2}, {2, 3}}) {
      for (const Traffic& traffic : traffics()) {
        test::on_threads(spread * sharing, test::only("inproc"), [&, spread = spread, sharing = sharing](World& world) {
          Communicator tensor = world.communicator().split(world.rank() / sharing);
          Communicator experts = world.communicator().split(world.rank() % sharing);
          const DispatchShape shape{"experts", traffic.experts, traffic.top_k, kWidth, 2, Determinism::Fast};
          const auto dispatcher = make_dispatcher<double>(kind, {&experts, &tensor, {}}, shape);
          const Routing<double> routing = routing_of(traffic, world.rank());
          const auto way = dispatcher->plan(routing);
          const std::vector<double> x = tokens_of(traffic, world.rank());
          std::vector<double> rows(static_cast<std::size_t>(way->rows() * kWidth)), out(x.size(), -1);
          way->dispatch(x.data(), rows.data());
          const double share = tensor.rank() == 0 ? 0.75 : 0.25 / (sharing - 1);
          compute(*way, dispatcher->experts(), {0, dispatcher->experts().count()}, share, rows);
          way->combine(rows.data(), out.data());
          const std::vector<double> expected = expected_of(traffic, world.rank());
          for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_NEAR(out[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << name_of(kind) << traffic.name;
          std::vector<double> parts = way->gates(), back(routing.gates.size(), -1);
          for (double& g : parts) g *= share;
          way->return_gates(parts.data(), back.data());
          for (std::size_t i = 0; i < back.size(); ++i)
            EXPECT_NEAR(back[i], routing.experts[i] == kNoExpert ? 0 : routing.gates[i], 1e-14);
        });
      }
    }
  }
}

/// 8 experts on 4 ranks: what is sent is what goes to other ranks, to the byte.
TEST(Dispatch, SendsWhatGoesToOtherRanks) {
  const Traffic traffic{"", 8, 2, [](int r) { return 5 + r; }, [](std::int64_t t) { return drawn(t, 8, 2); }};
  test::on_threads(4, test::only("inproc"), [&](World& world) {
    const DispatchShape shape{"experts", 8, 2, kWidth, 1, Determinism::Fast};
    const auto dispatcher =
        make_dispatcher<double>(DispatchKind::AllToAll, {&world.communicator(), nullptr, {}}, shape);
    const auto way = dispatcher->plan(routing_of(traffic, world.rank()));
    std::size_t off = 0;
    for (const std::int32_t e : routing_of(traffic, world.rank()).experts) off += e / 2 != world.rank() ? 1 : 0;
    const std::vector<double> x = tokens_of(traffic, world.rank());
    std::vector<double> rows(static_cast<std::size_t>(way->rows() * kWidth));
    EXPECT_EQ(dispatcher->sent_bytes(), 0U);
    way->dispatch(x.data(), rows.data());
    EXPECT_EQ(dispatcher->sent_bytes(), off * kWidth * sizeof(double));
  });
}

/// Each token crosses to a host once at most, and its sums come back once.
TEST(Dispatch, CrossesToAHostOnce) {
  const std::vector<int> hosts{0, 0, 0, 1, 1, 2};
  const Traffic traffic{"", 12, 4, [](int r) { return 9 - r; }, [](std::int64_t t) { return drawn(t, 12, 4); }};
  std::mutex mutex;
  std::size_t hierarchical = 0, flat = 0, once = 0, each = 0;
  test::on_threads(6, test::only("inproc"), [&](World& world) {
    const DispatchShape shape{"experts", 12, 4, kWidth, 1, Determinism::Fast};
    const ExpertRanks ranks{&world.communicator(), nullptr, hosts};
    const auto two = make_dispatcher<double>(DispatchKind::Hierarchical, ranks, shape);
    const auto one = make_dispatcher<double>(DispatchKind::AllToAll, ranks, shape);
    const Routing<double> routing = routing_of(traffic, world.rank());
    const std::vector<double> x = tokens_of(traffic, world.rank());
    for (Dispatcher<double>* dispatcher : {two.get(), one.get()}) {
      const auto way = dispatcher->plan(routing);
      std::vector<double> rows(static_cast<std::size_t>(way->rows() * kWidth));
      way->dispatch(x.data(), rows.data());
    }
    const int mine = hosts[static_cast<std::size_t>(world.rank())];
    const std::lock_guard lock(mutex);
    hierarchical += two->sent_between_hosts();
    flat += one->sent_between_hosts();
    for (std::int64_t t = 0; t < routing.tokens; ++t) {
      std::vector<int> seen;
      for (std::size_t i = static_cast<std::size_t>(t * 4); i < static_cast<std::size_t>(t * 4 + 4); ++i) {
        const int host = hosts[static_cast<std::size_t>(routing.experts[i] / 2)];
        if (host == mine) continue;
        ++each;
        if (std::ranges::find(seen, host) == seen.end()) seen.push_back(host);
      }
      once += seen.size();
    }
  });
  EXPECT_EQ(hierarchical, once * kWidth * sizeof(double));
  EXPECT_EQ(flat, each * kWidth * sizeof(double));
  EXPECT_LT(2 * once, each + once);
}

/// Everybody is told who has a logit that is no number.
TEST(Dispatch, TellsAllRanks_WhatCannotBeRouted) {
  for (const DispatchKind kind : {DispatchKind::AllGather, DispatchKind::AllToAll, DispatchKind::Hierarchical}) {
    test::on_threads(4, test::only("inproc"), [&](World& world) {
      Communicator tensor = world.communicator().split(world.rank() / 2);
      Communicator experts = world.communicator().split(world.rank() % 2);
      const DispatchShape shape{"blocks.1.experts", 4, 1, kWidth, 1, Determinism::Fast};
      const auto dispatcher = make_dispatcher<double>(kind, {&experts, &tensor, {}}, shape);
      std::vector<double> logits(8, 0.5);
      if (world.rank() == 2) logits[6] = std::numeric_limits<double>::infinity();
      const auto routed = Router<double>({.name = "blocks.1.router", .experts = 4, .top_k = 1}).route(logits, 2);
      try {
        static_cast<void>(dispatcher->plan(routed.routing));
        ADD_FAILURE() << "nothing was said";
      } catch (const Error& e) {
        const std::string why = e.what();
        EXPECT_EQ(e.code(), Code::InvalidArgument);
        EXPECT_NE(why.find("blocks.1.router"), std::string::npos) << why;
        if (world.rank() % 2 == 0)
          EXPECT_NE(why.find("token 1 for expert 2 on rank 2 (1 in split 0 at "), std::string::npos) << why;
        else
          EXPECT_NE(why.find("expected finite logits"), std::string::npos) << why;
      }
    });
  }
}

/// Rank 1 has twice as many: tokens of some experts would go nowhere.
TEST(Dispatch, TellsRanksThatHaveOtherExperts) {
  test::on_threads(2, test::only("inproc"), [](World& world) {
    const DispatchShape shape{"e", world.rank() == 1 ? 8 : 4, 1, kWidth, 1, Determinism::Fast};
    const auto dispatcher =
        make_dispatcher<double>(DispatchKind::AllGather, {&world.communicator(), nullptr, {}}, shape);
    const std::string why = test::complaint([&] { static_cast<void>(dispatcher->plan({"r", 1, 1, {3}, {1}, {}})); });
    EXPECT_NE(why.find(world.rank() == 0 ? "rank 1 has top 1 of 8" : "rank 0"), std::string::npos) << why;
  });
}

TEST(Dispatch, RefusesWhatDoesNotFit) {
  Communicator alone;
  const auto make = [&](const DispatchShape& shape, std::vector<int> hosts = {}) {
    return make_dispatcher<float>(DispatchKind::AllToAll, {&alone, nullptr, std::move(hosts)}, shape);
  };
  EXPECT_THROW(make({"e", 0, 1, 1, 1}), Error);
  EXPECT_THROW(make({"e", 2, 3, 1, 1}), Error);
  EXPECT_THROW(make({"e", 2, 1, 1, 0}), Error);
  EXPECT_THROW(make({"e", 2, 1, 1, 1}, {0, 0}), Error);
  const auto dispatcher = make({"e", 2, 1, 1, 1});
  EXPECT_THROW(static_cast<void>(dispatcher->plan({"r", 2, 1, {0, 2}, {1, 1}, {}})), Error);
  EXPECT_THROW(static_cast<void>(dispatcher->plan({"r", 2, 1, {0}, {1}, {}})), Error);
}

}  // namespace
}  // namespace sinew::parallel

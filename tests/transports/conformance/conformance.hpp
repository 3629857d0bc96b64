#pragma once

#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "transports/conformance/rank.hpp"

namespace sinew::test {

/// A transport that claims to keep the contract of core/transport.hpp, and how its ranks come to life.
/// It joins with one line:
///   INSTANTIATE_TEST_SUITE_P(inproc, Conformance, testing::Values(Subject{"threads", make, run_threads}));
struct Subject {
  std::string name;
  MakeRail make;
  std::function<void(int ranks, const RankBody& body)> run;
};

inline void run_threads(int ranks, const RankBody& body) { run_as_threads(ranks, body); }

class Conformance : public testing::TestWithParam<Subject> {
 protected:
  void ranks(int count, const std::function<void(Rank&)>& body) {
    GetParam().run(count, [&](const Exchange& world) {
      Rank me(world, GetParam().make);
      body(me);
    });
  }
  /// Of a transport made for the purpose.
  Capabilities capabilities() const {
    Capabilities c;
    run_as_threads(1, [&](const Exchange& world) { c = GetParam().make(world).transport->capabilities(); });
    return c;
  }
  bool has_descriptor() const {
    bool has = false;
    run_as_threads(1, [&](const Exchange& world) { has = GetParam().make(world).transport->wake_descriptor() >= 0; });
    return has;
  }
};

inline void PrintTo(const Subject& s, std::ostream* out) { *out << s.name; }
inline std::string subject_name(const testing::TestParamInfo<Subject>& info) { return info.param.name; }

}  // namespace sinew::test

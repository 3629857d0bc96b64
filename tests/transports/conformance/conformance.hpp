#pragma once

#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include <sinew/conformance/rank.hpp>
#include <sinew/conformance/ranks.hpp>

namespace sinew::test {

/// A transport that claims to keep the contract of core/transport.hpp, and how its ranks come to life.
/// It joins with one line:
///   INSTANTIATE_TEST_SUITE_P(inproc, Conformance, testing::Values(Subject{"threads", make, run_threads}));
/// Where `make` throws Error{Unavailable} every case is skipped, with the reason.
struct Subject {
  std::string name;
  MakeRail make;
  std::function<void(int ranks, const RankBody& body)> run;
  bool notices_death = true;  ///< of a peer's process, by itself; else a World must close the endpoint
};

inline void run_threads(int ranks, const RankBody& body) { run_as_threads(ranks, body); }

class Conformance : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override;
  void ranks(int count, const std::function<void(Rank&)>& body) {
    GetParam().run(count, [&](const Exchange& world) {
      Rank me(world, GetParam().make);
      body(me);
    });
  }
  /// Of a transport made for the purpose, alone, once per subject.
  const Capabilities& capabilities() const;
  /// Whether a thread that sleeps can be woken; else the transport must be polled.
  bool wakes() const;
};

inline void PrintTo(const Subject& s, std::ostream* out) { *out << s.name; }
inline std::string subject_name(const testing::TestParamInfo<Subject>& info) { return info.param.name; }

}  // namespace sinew::test

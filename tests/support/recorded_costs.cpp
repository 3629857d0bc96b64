#include <initializer_list>

#include <support/recorded_costs.hpp>

namespace sinew::test {
namespace {

struct Moving {
  double bytes;
  double us;
};

CostCurve curve(double latency_us, std::initializer_list<Moving> knots) {
  CostCurve c{0, latency_us * 1e-6, {}};
  for (const auto [bytes, us] : knots) c.knots.push_back({bytes, bytes / (us * 1e-6)});
  return c;
}

}  // namespace

const std::map<std::string, Links>& recorded_costs() {
  constexpr double kKiB = 1 << 10, kMiB = 1 << 20;
  static const std::map<std::string, Links> kAll = {
      {"two cores of an EPYC, apart",
       {{{"shm", curve(0.302, {{256, 0.06}, {4 * kKiB, 0.70}, {64 * kKiB, 10.83}, {kMiB, 211.9}, {8 * kMiB, 2494.1}})},
         {"tcp",
          curve(9.170, {{256, 0.001}, {4 * kKiB, 1.56}, {64 * kKiB, 40.57}, {kMiB, 375.0}, {8 * kMiB, 3472.6}})}},
        8.13e9,
        1.356e10}},
      {"two cores of an EPYC that share a cache",
       {{{"shm", curve(0.431, {{256, 0.05}, {4 * kKiB, 1.97}, {64 * kKiB, 10.19}, {kMiB, 139.3}, {8 * kMiB, 1933.3}})},
         {"tcp", curve(8.490, {{256, 1.01}, {4 * kKiB, 3.36}, {64 * kKiB, 55.46}, {kMiB, 461.2}, {8 * kMiB, 5454.1}})},
         {"ucx", curve(2.320, {{256, 0.23}, {4 * kKiB, 1.02}, {64 * kKiB, 21.36}, {kMiB, 191.1}, {8 * kMiB, 3495.4}})}},
        2.951e10,
        3.123e10}}};
  return kAll;
}

}  // namespace sinew::test

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/collectives/simulator/forecast.hpp>
#include <sinew/tools/draw/svg.hpp>

#include "spans.hpp"

namespace sinew::tools {

/// A picture with a lane for each simulated rank, which shows its sends, receives, copies and reductions over time. If
/// there are too many, only the first ranks and the earliest spans are drawn. account() says what is left out.
class TimeLine {
 public:
  explicit TimeLine(const Forecast& forecast);

  std::string account() const;
  double height() const;
  void draw(draw::Svg& svg, draw::Point at, double width) const;

 private:
  struct Lane {
    int rank = 0;
    std::array<double, kOps> top{};    // by operation
    std::array<double, kOps> track{};  // height of one
    double height = 0;
  };

  void lay_out_lanes();

  std::vector<Forecast::Span> spans_;
  std::vector<std::uint32_t> tracks_;
  std::vector<Lane> lanes_;
  std::size_t all_spans_ = 0;
  int all_ranks_ = 0;
  Seconds until_ = 0;  // of what is drawn
  Seconds end_ = 0;    // of what was simulated
};

}  // namespace sinew::tools

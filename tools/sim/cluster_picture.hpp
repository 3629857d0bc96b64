#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <sinew/collectives/simulator/forecast.hpp>
#include <sinew/topology/network.hpp>

#include "draw/svg.hpp"

namespace sinew::tools {

/// Hosts with their ranks and NICs, leaf switches and what joins these, each kind of link in the colour of its busiest
/// one's utilisation, and below a table of the kinds. Of many hosts and ranks the first are drawn, of a fat tree those
/// of the first leaves; account() says how many more there are.
/// Lifetime: network and forecast outlive it.
class ClusterPicture {
 public:
  ClusterPicture(const Network& network, const Forecast& forecast);

  std::string account() const;
  double height() const;
  double width() const;
  void draw(draw::Svg& svg, draw::Point at) const;

 private:
  double host_width() const;
  double host_left(std::size_t drawn) const;
  double table_top() const;
  int leaves() const;
  /// Middle of a leaf switch that is drawn.
  double leaf_x(int leaf) const;
  void link(draw::Svg& svg, draw::Point low, draw::Point high, Tier up, Tier down) const;
  void draw_host(draw::Svg& svg, draw::Point at, std::size_t drawn) const;
  void draw_frames(draw::Svg& svg, draw::Point at) const;
  void draw_switches(draw::Svg& svg, draw::Point at) const;
  void draw_table(draw::Svg& svg, draw::Point at) const;
  const Forecast::Load* load(Tier tier) const;
  std::string tooltip(Tier tier) const;

  const Network& network_;
  const Forecast& forecast_;
  std::vector<int> hosts_;     // that are drawn
  std::map<int, int> leaves_;  // that are drawn: the place of each
  int ranks_ = 0;              // of a host that are drawn
  int nics_ = 0;
};

}  // namespace sinew::tools

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <sinew/collectives/simulator/forecast.hpp>
#include <sinew/tools/draw/svg.hpp>
#include <sinew/topology/network.hpp>

namespace sinew::tools {

/// The hosts with their ranks and NICs, the leaf switches and the links between them. Each link has the colour of its
/// utilisation. A table of the kinds of links stands below. Of many hosts and ranks, only the first are drawn.
/// In a fat tree, these are the hosts of the first leaves. account() says how many are left out.
/// Lifetime: network and forecast outlive it.
/// Shape:    the forecast has its link_bytes.
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
  int ranks_on(int host) const;
  int first_rank(int host) const;
  int leaves() const;
  /// The middle of a leaf switch. That switch is drawn.
  double leaf_x(int leaf) const;
  void link(draw::Svg& svg, draw::Point low, draw::Point high, const NetworkLink& up, const NetworkLink& down) const;
  void draw_host(draw::Svg& svg, draw::Point at, std::size_t drawn) const;
  void draw_frames(draw::Svg& svg, draw::Point at) const;
  void draw_switches(draw::Svg& svg, draw::Point at) const;
  void draw_table(draw::Svg& svg, draw::Point at) const;
  bool never_limits(Tier tier) const;
  double bytes(const NetworkLink& link) const;
  double utilisation(const NetworkLink& link) const;
  std::string tooltip(const NetworkLink& link) const;
  std::string tooltip(const Forecast::Load& of) const;

  const Network& network_;
  const Forecast& forecast_;
  std::vector<int> hosts_;     // that are drawn
  std::map<int, int> leaves_;  // that are drawn: the place of each
  int ranks_ = 0;              // of a host that are drawn
  int nics_ = 0;
};

}  // namespace sinew::tools

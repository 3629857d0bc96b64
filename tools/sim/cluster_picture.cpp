#include "cluster_picture.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <sinew/tools/draw/style.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::tools {
namespace {

using draw::Anchor;
using draw::Point;

constexpr int kMostHosts = 4, kMostPlaces = 8, kHostsOfLeaf = 2;
constexpr double kPlace = 34, kPadding = 10, kHostGap = 24;
constexpr double kSpineY = 24, kLeafY = 90, kNicY = 210, kRankY = 270, kInnerY = 330;  // middles
constexpr double kHalf = 11;                                                           // of a part's height
constexpr double kHostTop = 178, kHostBottom = 352;
constexpr double kWays = 2.5;  // each way beside the other
constexpr double kRow = 17, kTableWidth = 780;

}  // namespace

ClusterPicture::ClusterPicture(const Network& network, const Forecast& forecast)
    : network_(network),
      forecast_(forecast),
      ranks_(std::min(network.ranks_per_host, kMostPlaces)),
      nics_(std::min(network.nics_per_host, kMostPlaces)) {
  const bool of_leaves = network.form == NetworkForm::FatTree && network.hosts > network.hosts_per_leaf;
  const int of_one = of_leaves ? std::min(network.hosts_per_leaf, kHostsOfLeaf) : kMostHosts;
  const int block = of_leaves ? network.hosts_per_leaf : network.hosts;
  for (int first = 0; first < network.hosts; first += block) {
    for (int h = first; h < std::min(first + of_one, network.hosts); ++h) {
      if (hosts_.size() < kMostHosts) hosts_.push_back(h);
    }
    if (hosts_.size() == kMostHosts) break;
  }
  for (const int host : hosts_) {
    for (int nic = 0; nic < nics_ && network.form != NetworkForm::OneSwitch; ++nic)
      leaves_.try_emplace(network.leaf_of(host, nic), static_cast<int>(leaves_.size()));
  }
}

std::string ClusterPicture::account() const {
  const auto more = [](int all, std::size_t drawn, std::string_view what) {
    return fmt::format("{} of {}", drawn, counted(static_cast<std::size_t>(all), what));
  };
  std::string text = more(network_.hosts, hosts_.size(), "host") + " drawn";
  if (ranks_ < network_.ranks_per_host)
    text += ", " + more(network_.ranks_per_host, static_cast<std::size_t>(ranks_), "rank") + " of each";
  if (!leaves_.empty())
    text +=
        ", " + fmt::format("{} of {}", leaves_.size(), counted(static_cast<std::size_t>(leaves()), "leaf", "leaves"));
  return text;
}

int ClusterPicture::ranks_on(int host) const {
  return network_.ranks_on.empty() ? network_.ranks_per_host : network_.ranks_on[static_cast<std::size_t>(host)];
}

int ClusterPicture::first_rank(int host) const {
  int first = 0;
  for (int before = 0; before < host; ++before) first += ranks_on(before);
  return first;
}

int ClusterPicture::leaves() const { return network_.count(Tier::LeafUp); }

double ClusterPicture::host_width() const { return std::max(ranks_, nics_) * kPlace + 2 * kPadding; }

double ClusterPicture::host_left(std::size_t drawn) const {
  return static_cast<double>(drawn) * (host_width() + kHostGap);
}

double ClusterPicture::width() const { return std::max(host_left(hosts_.size()) - kHostGap, kTableWidth); }

double ClusterPicture::table_top() const { return kHostBottom + 34; }

double ClusterPicture::height() const {
  return table_top() + kRow * (static_cast<double>(forecast_.loads.size()) + 3) + 12;
}

double ClusterPicture::leaf_x(int leaf) const {
  return (leaves_.at(leaf) + 0.5) * width() / static_cast<double>(leaves_.size());
}

bool ClusterPicture::never_limits(Tier tier) const { return network_.rate(tier).bytes_per_s == 0; }

double ClusterPicture::bytes(const NetworkLink& link) const {
  return never_limits(link.tier)
             ? 0
             : forecast_.link_bytes[static_cast<std::size_t>(link.tier)][static_cast<std::size_t>(link.index)];
}

double ClusterPicture::utilisation(const NetworkLink& link) const {
  return bytes(link) > 0 ? bytes(link) / network_.rate(link.tier).bytes_per_s / forecast_.seconds : 0;
}

std::string ClusterPicture::tooltip(const NetworkLink& link) const {
  if (never_limits(link.tier)) return fmt::format("{}: never limits", name_of(link.tier));
  const LinkRate& rate = network_.rate(link.tier);
  return fmt::format("{}: {:.0f} bytes, {:.1f} % of {:.4g} GB/s; {:.4g} us", network_.describe(link), bytes(link),
                     100 * utilisation(link), rate.bytes_per_s / 1e9, rate.latency_s * 1e6);
}

std::string ClusterPicture::tooltip(const Forecast::Load& of) const {
  const LinkRate& rate = network_.rate(of.tier);
  return fmt::format(
      "{}: {} of {:.4g} GB/s and {:.4g} us, {} used, carry {:.0f} bytes; busiest is {}: {:.0f} bytes, {:.1f} %",
      name_of(of.tier), counted(static_cast<std::size_t>(of.links), "link"), rate.bytes_per_s / 1e9,
      rate.latency_s * 1e6, of.used, of.bytes, network_.describe(of.busiest), of.busiest_bytes, 100 * of.utilisation);
}

void ClusterPicture::link(draw::Svg& svg, Point low, Point high, const NetworkLink& up, const NetworkLink& down) const {
  const auto classes = [&](const NetworkLink& of) {
    return fmt::format("{} {}", draw::use_class(utilisation(of)), never_limits(of.tier) ? "thin" : "link");
  };
  svg.line({low.x - kWays, low.y}, {high.x - kWays, high.y}, classes(up), tooltip(up));
  svg.line({low.x + kWays, low.y}, {high.x + kWays, high.y}, classes(down), tooltip(down));
}

void ClusterPicture::draw(draw::Svg& svg, Point at) const {
  draw_frames(svg, at);
  draw_switches(svg, at);
  for (std::size_t drawn = 0; drawn < hosts_.size(); ++drawn) draw_host(svg, at, drawn);
  draw_table(svg, {at.x, at.y + table_top()});
}

void ClusterPicture::draw_frames(draw::Svg& svg, Point at) const {
  for (std::size_t drawn = 0; drawn < hosts_.size(); ++drawn) {
    const double left = at.x + host_left(drawn);
    svg.box({left, at.y + kHostTop, host_width(), kHostBottom - kHostTop}, "part host");
    svg.text({left + host_width() / 2, at.y + kHostBottom + 16}, fmt::format("host {}", hosts_[drawn]), "ink",
             Anchor::Middle);
  }
}

void ClusterPicture::draw_switches(draw::Svg& svg, Point at) const {
  const std::string_view name = leaves_.empty() ? "one switch, which never limits" : "spine, which never limits";
  svg.box({at.x, at.y + kSpineY - kHalf, width(), 2 * kHalf}, "part spine", name);
  svg.text({at.x + width() / 2, at.y + kSpineY + 4}, name, "ink", Anchor::Middle);
  for (const auto& [leaf, place] : leaves_) {
    const double x = at.x + leaf_x(leaf), half = std::min(width() / static_cast<double>(leaves_.size()) / 2 - 6, 90.0);
    link(svg, {x, at.y + kLeafY - kHalf}, {x, at.y + kSpineY + kHalf}, {Tier::LeafUp, leaf}, {Tier::LeafDown, leaf});
    svg.box({x - half, at.y + kLeafY - kHalf, 2 * half, 2 * kHalf}, "part leaf", fmt::format("leaf switch {}", leaf));
    svg.text({x, at.y + kLeafY + 4}, fmt::format("leaf {}", leaf), "ink", Anchor::Middle);
  }
}

void ClusterPicture::draw_host(draw::Svg& svg, Point at, std::size_t drawn) const {
  const int host = hosts_[drawn];
  const double width = host_width(), left = at.x + host_left(drawn);
  const auto middle = [&](int place, int places) { return left + (place + 0.5) * width / places; };
  const auto part = [&](double x, double y, std::string_view classes, const std::string& text,
                        const std::string& tooltip) {
    constexpr double kHalfWidth = 13;
    svg.box({x - kHalfWidth, y - kHalf, 2 * kHalfWidth, 2 * kHalf}, classes, tooltip);
    svg.text({x, y + 4}, text, "ink small", Anchor::Middle);
  };
  for (int nic = 0; nic < nics_; ++nic) {
    const Point top{middle(nic, nics_), at.y + kNicY - kHalf};
    const double up_x = leaves_.empty() ? top.x : at.x + leaf_x(network_.leaf_of(host, nic));
    const double up_y = at.y + (leaves_.empty() ? kSpineY : kLeafY) + kHalf;
    const int port = host * network_.nics_per_host + nic;
    link(svg, top, {up_x, up_y}, {Tier::NicOut, port}, {Tier::NicIn, port});
    part(top.x, at.y + kNicY, "nic", fmt::format("N{}", nic), fmt::format("NIC {} of host {}", nic, host));
  }
  const double inner = at.y + kInnerY - kHalf;
  for (int place = 0; place < std::min(ranks_on(host), ranks_); ++place) {
    const double x = middle(place, ranks_);
    const int nic = network_.nic_of_place(place), rank = first_rank(host) + place;
    if (nic < nics_) {
      link(svg, {x, at.y + kRankY - kHalf}, {middle(nic, nics_), at.y + kNicY + kHalf}, {Tier::PciOut, rank},
           {Tier::PciIn, rank});
    }
    link(svg, {x, inner}, {x, at.y + kRankY + kHalf}, {Tier::RankIn, rank}, {Tier::RankOut, rank});
    part(x, at.y + kRankY, "gpu", fmt::format("{}", rank), fmt::format("rank {}", rank));
  }
  const NetworkLink memory{Tier::Memory, host};
  const bool is_switch = never_limits(Tier::Memory);
  svg.box({left + kPadding, inner, width - 2 * kPadding, 2 * kHalf},
          is_switch ? "inner" : draw::use_class(utilisation(memory)),
          is_switch ? "what joins the ranks of a host; it never limits" : tooltip(memory));
  svg.text({left + width / 2, at.y + kInnerY + 4}, is_switch ? "switch" : "memory", "ink small", Anchor::Middle);
}

void ClusterPicture::draw_table(draw::Svg& svg, Point at) const {
  constexpr double kName = 0, kLinks = 180, kBytes = 310, kBusiest = 330, kBusiestBytes = 590, kBar = 610, kWidth = 100;
  double y = at.y + kRow;
  svg.text({at.x + kName, y}, "links", "faint");
  svg.text({at.x + kLinks, y}, "used", "faint", Anchor::End);
  svg.text({at.x + kBytes, y}, "bytes in all", "faint", Anchor::End);
  svg.text({at.x + kBusiest, y}, "the busiest", "faint");
  svg.text({at.x + kBusiestBytes, y}, "its bytes", "faint", Anchor::End);
  svg.text({at.x + kBar, y}, "its utilisation", "faint");
  for (const Forecast::Load& of : forecast_.loads) {
    y += kRow;
    svg.text({at.x + kName, y}, name_of(of.tier), "ink tier");
    svg.text({at.x + kLinks, y}, fmt::format("{} of {}", of.used, of.links), "ink", Anchor::End);
    svg.text({at.x + kBytes, y}, fmt::format("{:.0f}", of.bytes), "ink", Anchor::End);
    svg.text({at.x + kBusiest, y}, network_.describe(of.busiest));
    svg.text({at.x + kBusiestBytes, y}, fmt::format("{:.0f}", of.busiest_bytes), "ink", Anchor::End);
    svg.box({at.x + kBar, y - 10, std::max(kWidth * std::min(of.utilisation, 1.0), 1.0), 12},
            draw::use_class(of.utilisation), tooltip(of));
    svg.text({at.x + kBar + kWidth + 8, y}, fmt::format("{:.1f} %", 100 * of.utilisation));
  }
  double x = at.x;
  y += kRow + 4;
  for (const draw::UseRow& use : draw::kUses) {
    svg.box({x, y - 10, 12, 12}, use.name);
    svg.text({x + 16, y}, use.meaning, "faint");
    x += 30 + draw::text_width(use.meaning);
  }
  y += kRow;
  svg.text({at.x, y},
           forecast_.simulated_ranks < forecast_.ranks
               ? "each link in the colour of its own utilisation; links of ranks that behave alike, of "
                 "which one was simulated, are alike"
               : "each link in the colour of its own utilisation",
           "faint");
}

}  // namespace sinew::tools

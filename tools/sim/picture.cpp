#include "picture.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <sinew/tools/common/time_text.hpp>
#include <sinew/tools/draw/svg.hpp>

#include "cluster_picture.hpp"
#include "time_line.hpp"

namespace sinew::tools {

std::string picture_of(const SimulatedCall& call, const Network& network, const SimulatedWay& way) {
  constexpr double kMargin = 20, kLine = 17, kHead = 30;
  const Forecast& f = way.forecast;
  const ClusterPicture cluster(network, f);
  const TimeLine time_line(f);
  const std::string title = heading(call, network);
  const std::string how = fmt::format("{}{}; {}", f.exact ? "" : "approximation: ", f.account, cluster.account());
  const double width = std::max({cluster.width(), draw::text_width(title, 16), draw::text_width(how), 900.0});
  const double cluster_top = kMargin + kHead + 2 * kLine, line_top = cluster_top + cluster.height() + kHead;

  draw::Svg svg(width + 2 * kMargin, line_top + kLine + time_line.height() + kMargin, title);
  svg.text({kMargin, kMargin + 12}, title, "ink head");
  svg.text({kMargin, kMargin + kHead},
           fmt::format("{}: {}, {:.4g} GB/s, bus {:.4g} GB/s", full_name(way), time_text(f.seconds),
                       f.algbw_bytes_per_s / 1e9, f.busbw_bytes_per_s / 1e9));
  svg.text({kMargin, kMargin + kHead + kLine}, how, "faint");
  cluster.draw(svg, {kMargin, cluster_top});
  svg.text({kMargin, line_top}, "time line", "ink head");
  svg.text({kMargin + 90, line_top}, time_line.account(), "faint");
  time_line.draw(svg, {kMargin, line_top + kLine / 2}, width);
  return svg.text_of_file();
}

}  // namespace sinew::tools

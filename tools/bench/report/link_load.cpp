#include "link_load.hpp"

#include <fmt/format.h>

#include <sinew/core/base/table.hpp>

namespace sinew::tools {

std::string to_text(const LinkLoad& load) {
  const auto bytes = [](const LinkLoad::Bytes& b) {
    return fmt::format("{} bytes by {} links, {} at most", b.all, b.used, b.busiest);
  };
  std::string carried = fmt::format("counted {} ({})", bytes(load.counted), load.busiest);
  if (load.simulated) {
    carried +=
        load.differs() ? fmt::format("; simulated {}: DIFFERS", bytes(*load.simulated)) : "; simulated: the same";
  }
  return Table({{.align = Align::Right, .width = 6}, {.width = 8}, {}}, "#")
      .row({std::to_string(load.count), load.links, carried});
}

}  // namespace sinew::tools

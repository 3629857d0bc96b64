#include "link_load.hpp"

#include <fmt/format.h>

namespace sinew::tools {

std::string to_text(const LinkLoad& load) {
  const auto bytes = [](const LinkLoad::Bytes& b) {
    return fmt::format("{} bytes by {} links, {} at most", b.all, b.used, b.busiest);
  };
  std::string text =
      fmt::format("#   {:>4} {:<9} counted {} ({})", load.count, load.links, bytes(load.counted), load.busiest);
  if (!load.simulated) return text + "\n";
  return text + (load.differs() ? fmt::format("; simulated {}: DIFFERS\n", bytes(*load.simulated))
                                : "; simulated: the same\n");
}

}  // namespace sinew::tools

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sinew::tools {

/// What the links of one tier of a virtual cluster carried in one call.
struct LinkLoad {
  struct Bytes {
    std::uint64_t all = 0;
    std::uint64_t busiest = 0;  ///< of one link
    int used = 0;               ///< links that carried anything
    friend bool operator==(const Bytes&, const Bytes&) = default;
  };
  std::string links;  ///< "nic out"
  int count = 0;      ///< of links
  std::string busiest;
  Bytes counted;
  std::optional<Bytes> simulated;  ///< of what the simulator knows

  bool differs() const noexcept { return simulated && *simulated != counted; }
};

/// Below a row of the table.
std::string to_text(const LinkLoad& load);

}  // namespace sinew::tools

#pragma once

#include <string>
#include <string_view>

#include <sinew/topology/machine.hpp>

namespace sinew {

/// What one XGMI link (AMD's Infinity Fabric between GPUs) moves each way, by AMD's documents.
struct XgmiRate {
  std::string_view architecture;
  double bytes_per_s = 0;  ///< 0: unknown
  const char* source = "";
};

/// Of a GPU by the name that AMD's compiler has for it: "gfx942" of an MI300X.
XgmiRate xgmi_of(std::string_view architecture);

/// `links` XGMI links side by side between two parts.
Link xgmi(std::string from, std::string to, int links, const XgmiRate& rate);

}  // namespace sinew

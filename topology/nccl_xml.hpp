#pragma once

#include <string>
#include <string_view>

#include <sinew/core/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The machine that NCCL saw: a file that NCCL_TOPO_DUMP_FILE wrote, or one for NCCL_TOPO_FILE. GPUs come in the order
/// of their `dev`. NCCL's guesses of bandwidth are not taken over: PCI links have what their speed and width give,
/// NVLinks what the datasheet of their generation says. What NCCL does not write down (packages, caches, memory) is in
/// unseen. Errors: Error{InvalidArgument} "FILE:LINE: <pci>: busid="...": expected ...". Source: NCCL 2.27,
/// src/graph/xml.cc and topo.cc.
SINEW_API Machine machine_from_nccl_xml(std::string_view text, const std::string& file);

}  // namespace sinew

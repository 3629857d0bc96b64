#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

/// The machine that NCCL or RCCL saw: a file that NCCL_TOPO_DUMP_FILE wrote, or one for NCCL_TOPO_FILE. GPUs come in
/// the order of their `dev`. NCCL's guesses of bandwidth are not taken over: PCI links have what their speed and width
/// give, NVLinks and XGMI links what the datasheet of their GPU says. What is not written down there (packages, caches,
/// memory) is in `unseen`. What is written down and has no place in a Machine is in `ignored`, whether it is known or
/// not.
/// Errors: Error{InvalidArgument} "FILE:LINE: <pci>: busid="...": expected ...".
/// Source: src/graph/xml.cc and topo.cc of NCCL 2.6 to 2.30 and of RCCL 5.1 to 7 (version="2").
SINEW_API Machine machine_from_nccl_xml(std::string_view text, const std::string& file);

}  // namespace sinew

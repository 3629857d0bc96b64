#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew {

// A line for each part of a machine, with units and where figures are from: what trees and pictures say.

/// "23.4 GiB", "32 KiB", "512 B".
SINEW_API std::string binary_text(std::uint64_t bytes);
/// "1 core", "2 cores"; `more`: where an s does not do.
SINEW_API std::string counted(std::size_t n, std::string_view one, std::string_view more = {});
/// "no cores", "core 3", "cores 0-1".
SINEW_API std::string core_list(const std::vector<int>& cores);
/// "64 GiB"; "unknown memory" where the machine tells of none at all, "no memory" where others have it.
SINEW_API std::string memory_text(const Machine& machine, const NumaNode& node);
/// "NVLink", "XGMI link": of the kinds that join GPUs.
SINEW_API std::string_view gpu_link_name(LinkKind kind);
/// "line 5", "lines 5, 9 and 12 more".
SINEW_API std::string line_list(const std::vector<int>& lines);
/// What the files have and the machine has not: a line for each part that was not understood, one for all others.
SINEW_API std::vector<std::string> ignored_lines(const Machine& machine);
/// "63 GB/s (PCI)", "unknown (not in the datasheet)".
SINEW_API std::string rate_text(const Figure& bytes_per_s);

/// "L3 32 MiB per 2 cores, L2 1 MiB per core": each kind of cache among these cores once.
SINEW_API std::string caches_line(const Machine& machine, const std::vector<int>& cores);
SINEW_API std::string numa_line(const Machine& machine, const NumaNode& node);
SINEW_API std::string pci_line(const Machine& machine, const PciDevice& device);
SINEW_API std::string gpu_line(const Gpu& gpu);
/// NVLinks and XGMI links once, at their first end: NVLinks to the NVSwitches together, as these are one fabric.
SINEW_API std::vector<std::string> gpu_link_lines(const Machine& machine, std::string_view part);
SINEW_API std::string nvswitch_line(const NvSwitch& nvswitch);
SINEW_API std::string nic_line(const Nic& nic);

}  // namespace sinew

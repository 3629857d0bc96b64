#pragma once

#include <vector>

#include <sinew/core/transport.hpp>
#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "clocks.hpp"

namespace sinew::doctor {

/// What the lowest rank of a host has found out about the host when all probes are over.
struct HostReport {
  std::vector<Finding> findings;
  std::vector<ClockReading> clocks;
};

Bytes to_bytes(const HostReport& report);
/// Errors: Error{Mismatch} where the bytes are no report.
HostReport host_report_from(const Bytes& bytes);

}  // namespace sinew::doctor

#pragma once

#include <vector>

#include <sinew/core/transport.hpp>

#include "clocks.hpp"
#include "finding.hpp"
#include "link_probe.hpp"

namespace sinew::doctor {

/// What the lowest rank of a host has found out when all probes are over.
struct HostReport {
  std::vector<Finding> findings;  ///< about this host alone
  std::vector<ClockReading> clocks;
  std::vector<LinkResult> links;  ///< that go out from it
};

Bytes to_bytes(const HostReport& report);
/// Errors: Error{Mismatch} where the bytes are no report.
HostReport host_report_from(const Bytes& bytes);

}  // namespace sinew::doctor

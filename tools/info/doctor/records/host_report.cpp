#include "host_report.hpp"

#include <sinew/core/base/wire.hpp>
#include <sinew/tools/info/doctor/finding/lists.hpp>

namespace sinew::doctor {

Bytes to_bytes(const HostReport& report) {
  WireWriter to;
  write_list(to, report.findings, [&](const Finding& f) { write(to, f); });
  write_list(to, report.clocks, [&](const ClockReading& c) { to.value(c); });
  return to.take();
}

HostReport host_report_from(const Bytes& bytes) {
  WireReader from(bytes);
  HostReport report;
  report.findings = read_list(from, [&] { return read_finding(from); });
  report.clocks = read_list(from, [&] { return from.value<ClockReading>(); });
  return report;
}

}  // namespace sinew::doctor

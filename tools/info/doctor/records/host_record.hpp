#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/tools/info/doctor/finding/finding.hpp>
#include <sinew/tools/info/doctor/interfaces/interfaces.hpp>

namespace sinew::doctor {

/// A transport on a host.
struct ModuleRecord {
  std::string name;
  bool ok = false;
  std::string reason;  ///< why it cannot be used
};

/// What the lowest rank of a host says of the host: what other hosts need to probe it.
struct HostRecord {
  std::vector<HostAddress> addresses;
  std::vector<ModuleRecord> modules;
  std::uint16_t port = 0;  ///< where its LinkServer listens
  AuthClaim claim;
  std::vector<Finding> findings;  ///< why something of this is missing
};

/// The record of this host, without port and claim. Loads all modules, as a World would.
HostRecord record_of_this_host(const Config& config);
Bytes to_bytes(const HostRecord& record);
/// Errors: Error{Mismatch} where the bytes are no record.
HostRecord host_record_from(const Bytes& bytes);

}  // namespace sinew::doctor

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/wire.hpp>

namespace sinew::doctor {

/// Fails: a job on these hosts would end with an error, or hang until its deadline. Warns: a job would run, but slower
/// or with less than these hosts have.
enum class Severity : std::uint8_t { Fine, Warns, Fails };
/// "ok", "warns", "fails".
std::string_view name_of(Severity severity) noexcept;

/// What one check says of some hosts.
struct Finding {
  Severity severity = Severity::Fine;
  std::string what;                     ///< the check: "memory", "link"
  std::string found;                    ///< with its figures, and what was expected
  std::string cure = {};                ///< what to do about it; empty where it is fine
  std::vector<std::string> hosts = {};  ///< their names; empty: the job as a whole
  friend bool operator==(const Finding&, const Finding&) = default;
};

bool would_fail(std::span<const Finding> findings) noexcept;

/// Sorts findings, the worst first; equally bad ones keep their order. Findings that differ only in their hosts become
/// one.
std::vector<Finding> merged(std::span<const Finding> findings);

void write(WireWriter& to, const Finding& finding);
/// Errors: Error{Mismatch} where the bytes are no findings.
Finding read_finding(WireReader& from);

}  // namespace sinew::doctor

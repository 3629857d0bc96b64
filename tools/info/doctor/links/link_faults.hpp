#pragma once

#include <string>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Why a link does not carry: "no answer".
std::string fault_of(const LinkResult& way);
/// What to do about it.
std::string cure_of(const LinkResult& way);

/// Whether the kernel of this host refused the connection, so that no other host was waited for.
bool fails_at_once(const LinkResult& way) noexcept;

}  // namespace sinew::doctor

#pragma once

#include <string>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Why a link does not carry: "no answer".
std::string fault_of(const LinkResult& way);
/// What to do about it.
std::string cure_of(const LinkResult& way);

/// True if the kernel of this host refused the connection at once, without waiting for the other host.
bool fails_at_once(const LinkResult& way) noexcept;

}  // namespace sinew::doctor

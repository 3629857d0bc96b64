#pragma once

#include <string>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Why a way does not carry: "no answer".
std::string fault_of(const LinkResult& way);
/// And what to do about it.
std::string cure_of(const LinkResult& way);

/// The kernel here has refused it: nobody was waited for.
bool fails_at_once(const LinkResult& way) noexcept;

}  // namespace sinew::doctor

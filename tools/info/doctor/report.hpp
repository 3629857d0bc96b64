#pragma once

#include <string>

#include "examination.hpp"

namespace sinew::doctor {

/// For people: a line for each finding with its cure below it, and a line that sums up. A check that is fine on several
/// hosts is shown for the first of them.
std::string to_text(const Diagnosis& diagnosis);

/// For scripts: one object. Every key is always there. null: unknown; "": there is nothing to say.
/// docs/using.md lists the keys.
std::string to_json(const Diagnosis& diagnosis);

}  // namespace sinew::doctor

#pragma once

#include <string>

#include "examination.hpp"

namespace sinew::doctor {

/// For people: a line per finding with its cure below it, and what it comes to. Of a check that is fine on several
/// hosts the first speaks for all.
std::string to_text(const Diagnosis& diagnosis);

/// For scripts: one object. Every key is always there; what is not known is null, what there is nothing to say of "".
/// docs/using.md lists them.
std::string to_json(const Diagnosis& diagnosis);

}  // namespace sinew::doctor

#pragma once

#include <string>

namespace sinew::tools {

/// The text of --version: "sinew 0.1.0", the commit that it was built from, transports, offloads and optional parts.
std::string version_text();

}  // namespace sinew::tools

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sinew::tools {

/// Adds the option --device [cuda], which sets `on_device`. Parsing anything else after it throws
/// CLI::ValidationError.
void add_device_option(CLI::App& app, bool& on_device, const std::string& help);

}  // namespace sinew::tools

#include "device_option.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sinew::tools {

void add_device_option(CLI::App& app, bool& on_device, const std::string& help) {
  const auto read = [&on_device](const std::string& kind) {
    if (!kind.empty() && kind != "cuda") {
      throw CLI::ValidationError(
          "--device", fmt::format("'{}': expected cuda, or nothing; the collective comes before the option", kind));
    }
    on_device = true;
  };
  app.add_option_function<std::string>("--device", read, help)->expected(0, 1)->type_name("[cuda]");
}

}  // namespace sinew::tools

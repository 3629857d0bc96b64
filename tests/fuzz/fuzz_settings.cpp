#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/selection/times/tuned_times.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace {

constexpr std::array kVariables = {"SINEW_TIMEOUT", "SINEW_TUNE",   "SINEW_HOST_ID", "SINEW_PORTS",
                                   "SINEW_LOG",     "SINEW_VERIFY", "SINEW_CACHE",   "SINEW_TRANSPORTS"};

/// A value that is refused is shown, with what was expected.
template <class Read>
void read(std::string_view says, Read call) {
  try {
    call();
  } catch (const sinew::Error& e) {
    const bool told =
        e.code() == sinew::Code::InvalidArgument && std::string_view(e.what()).find(says) != std::string_view::npos;
    if (!told) std::abort();
  }
}

}  // namespace

/// The first byte: which variable has the rest as its value, a rule of SINEW_TUNE and a file of tuned times alike.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const char* name = kVariables[*data % kVariables.size()];
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ::setenv(name, text.c_str(), 1);
  read(name, [] { (void)describe(sinew::Config::from_environment()); });
  ::unsetenv(name);
  read("rule '", [&] { (void)sinew::Rule::parse(text); });
  read("file", [&] {
    const std::string written = to_text(sinew::tuned_times_from(text, "file"));
    if (to_text(sinew::tuned_times_from(written, "file")) != written) std::abort();
  });
  return 0;
}
